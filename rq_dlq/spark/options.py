"""The options of `.option(…)`, read and checked once. Spark passes text, and ignores case in names."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rq_dlq.errors import InvalidInput
from rq_dlq.spark.brokers import USUAL_NAMESPACE
from rq_dlq.spark.schemas import VIEWS
from rq_dlq.values.durations import milliseconds
from rq_dlq.values.names import check_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Self

WHERE = ("url", "namespace")
QUEUES = ("queue", "shards")
READ = (
    *WHERE, *QUEUES, "view", "numPartitions", "fetchSize", "since", "until", "fingerprint", "errorClass",
    "history", "batch",
)  # fmt: skip
STREAM = (
    *WHERE, *QUEUES, "view", "numPartitions", "fetchSize", "maxMessagesPerTrigger", "lease", "maxWait",
    "maxBatchFailures", "startingOffsets", "failOnDataLoss",
)  # fmt: skip
# Options that only some views have, of tables and of streams.
_ONLY = {
    "since": ("queue", "scheduled", "leased", "dlq", "expired", "history"),
    "until": ("queue", "scheduled", "leased", "dlq", "expired", "history"),
    "fingerprint": ("dlq", "expired", "history"),
    "errorClass": ("dlq", "expired", "history"),
    "history": ("dlq", "expired"),
    "batch": ("leased",),
}
_ONLY_STREAMED = {
    "lease": ("queue",),
    "maxBatchFailures": ("queue",),
    "numPartitions": ("queue",),
    "startingOffsets": ("history",),
}
STORIES = ("struct", "json", "none")
STREAMS = ("queue", "history")
FETCH_SIZE, MOST_FETCHED = 500, 1_000
_NUMBER = re.compile(r"[0-9][0-9_]{0,17}")
_MILLISECONDS = re.compile(r"[0-9]{1,15}")
MAX_SHARDS, MAX_PARTITIONS = 1_000, 10_000


class Given:
    """Options as Spark passes them.

    Raises:
        InvalidInput: there is no such option. Each reader also raises it for a bad value.
    """

    def __init__(self, options: Mapping[str, str], known: Sequence[str]) -> None:
        self._by_name = {name.lower(): value for name, value in options.items()}
        names = {name.lower() for name in known}
        if unknown := [name for name in options if name.lower() not in names]:
            message = f"unknown option {', '.join(map(repr, unknown))}: the options are {', '.join(known)}"
            raise InvalidInput(message)

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._by_name

    def only(self, views_of: Mapping[str, Sequence[str]], view: str) -> None:
        """Refuse options that the view does not have."""
        for name, views in views_of.items():
            if name in self and view not in views:
                message = f"view {view!r} has no option {name}: it is only for {', '.join(views)}"
                raise InvalidInput(message)

    def text(self, name: str, default: str = "") -> str:
        """Text, unchanged."""
        return self._by_name.get(name.lower(), default)

    def word(self, name: str, words: Iterable[str], default: str) -> str:
        """One of several words."""
        known = list(words)
        word = self.text(name, default).lower()
        if word not in known:
            raise _unusable(name, word, f"one of {', '.join(known)}")
        return word

    def flag(self, name: str, *, default: bool) -> bool:
        """True or false."""
        return self.word(name, ("true", "false"), str(default).lower()) == "true"

    def number(self, name: str, default: int, *, least: int = 1, most: int = 1_000_000_000) -> int:
        """A whole number."""
        text = self.text(name, str(default)).strip()
        if not _NUMBER.fullmatch(text) or not least <= (number := int(text.replace("_", ""))) <= most:
            raise _unusable(name, text, f"a whole number from {least:,} to {most:,}")
        return number

    def duration(self, name: str, default: str, *, minimum: int = 0) -> int:
        """A duration in milliseconds."""
        return milliseconds(self.text(name, default), name=name, minimum=minimum)

    def moment(self, name: str) -> int | None:
        """A time in epoch milliseconds; None if the option is missing. A time without a zone is in UTC."""
        text = self.text(name).strip()
        if name not in self:
            return None
        if _MILLISECONDS.fullmatch(text):
            return int(text)
        try:
            time = datetime.fromisoformat(text)
        except ValueError:
            raise _unusable(name, text, "an ISO time (2026-11-21T14:00:00Z) or epoch milliseconds") from None
        return int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)

    def queues(self) -> tuple[str, ...]:
        """Names or patterns of queues, without spaces around them; the caller checks them."""
        text = self.text("queue")
        names = tuple(name.strip() for name in text.split(","))
        if not all(names):
            message = (
                f"option queue: {text[:100]!r}: pass the name of a queue, or several separated by commas"
            )
            raise InvalidInput(message)
        return names


def _unusable(name: str, value: str, wanted: str) -> InvalidInput:
    return InvalidInput(f"option {name}: {value[:100]!r} is not {wanted}")


def shards_of(queue: str, count: int) -> list[tuple[str, int]]:
    """The names and numbers of a queue's shards; without shards, the queue itself."""
    return [(f"{queue}:{number}", number) for number in range(count)] if count else [(queue, 0)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """The options of `spark.read.format("rq_dlq")`.

    Attributes:
        url: where Redis is; None: $RQ_DLQ_URL, else the embedded server. Never shown: it may have a password.
        queues: names, or patterns with `*`.
        shards: how many shards each name stands for, `name:0` …; 0: only for itself.
        partitions: the most Spark tasks; 0: as many as the rows need.
        fetch_size: rows in one call.
        since, until: epoch milliseconds, inclusive and exclusive.
        history: the form of a dead letter's history.
        batch: only messages of this batch, which `claim` or a stream made; empty: all.
    """

    url: str | None = field(repr=False)
    namespace: str
    view: str
    queues: tuple[str, ...]
    shards: int
    partitions: int
    fetch_size: int
    since: int | None
    until: int | None
    fingerprint: str
    error_class: str
    history: str
    batch: str

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Self:
        """Read and check them.

        Raises:
            InvalidInput: there is no such option or value, or the view does not have it.
        """
        given = Given(options, READ)
        view = given.word("view", VIEWS, "queue")
        given.only(_ONLY, view)
        queues = given.queues()
        for name in queues:
            check_name(name.replace("*", "x"))
        if "shards" in given and any("*" in name for name in queues):
            message = "option shards works with names of queues, not with patterns: leave out one of them"
            raise InvalidInput(message)
        return cls(
            url=given.text("url") or None,
            namespace=given.text("namespace", USUAL_NAMESPACE),
            view=view,
            queues=queues,
            shards=given.number("shards", 0, least=0, most=MAX_SHARDS),
            partitions=given.number("numPartitions", 0, least=0, most=MAX_PARTITIONS),
            fetch_size=given.number("fetchSize", FETCH_SIZE, most=MOST_FETCHED),
            since=given.moment("since"),
            until=given.moment("until"),
            fingerprint=given.text("fingerprint"),
            error_class=given.text("errorClass"),
            history=given.word("history", STORIES, "struct"),
            batch=given.text("batch"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions:
    """The options of `spark.readStream.format("rq_dlq")`.

    Attributes:
        url: where Redis is; None: $RQ_DLQ_URL, else the embedded server. Never shown: it may have a password.
        view: queue, or history.
        shards: how many shards the name stands for, `name:0` …; 0: only for itself.
        partitions: the most Spark tasks for a batch; 0: as many as the rows need.
        fetch_size: rows in one call.
        max_messages: the most messages in a batch.
        lease: of a batch, in milliseconds; the driver renews it.
        max_wait: milliseconds that an idle source waits for a message.
        max_failures: how often a batch may fail before it is halved.
        starting: of a history: earliest, latest, or the id of an event after which to begin.
        fail_on_loss: end the query if its checkpoint and the queue disagree about what is done.
    """

    url: str | None = field(repr=False)
    namespace: str
    view: str
    queue: str
    shards: int
    partitions: int
    fetch_size: int
    max_messages: int
    lease: int
    max_wait: int
    max_failures: int
    starting: str
    fail_on_loss: bool

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Self:
        """Read and check them.

        Raises:
            InvalidInput: there is no such option or value.
        """
        given = Given(options, STREAM)
        view = given.word("view", STREAMS, "queue")
        given.only(_ONLY_STREAMED, view)
        queue = given.text("queue").strip()
        check_name(queue)
        return cls(
            url=given.text("url") or None,
            namespace=given.text("namespace", USUAL_NAMESPACE),
            view=view,
            queue=queue,
            shards=given.number("shards", 0, least=0, most=MAX_SHARDS),
            partitions=given.number("numPartitions", 0, least=0, most=MAX_PARTITIONS),
            fetch_size=given.number("fetchSize", FETCH_SIZE, most=MOST_FETCHED),
            max_messages=given.number("maxMessagesPerTrigger", 50_000),
            lease=given.duration("lease", "5m", minimum=1_000),
            max_wait=given.duration("maxWait", "1s"),
            max_failures=given.number("maxBatchFailures", 3),
            starting=given.text("startingOffsets", "earliest"),
            fail_on_loss=given.flag("failOnDataLoss", default=True),
        )

    def homes(self) -> list[tuple[str, int]]:
        """The queues to read, and their shard numbers."""
        return shards_of(self.queue, self.shards)
