"""Finds a common value of leased messages while others wait: one tenant, one key, one dependency."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rq_dlq.core.batches import calls as batch_calls
from rq_dlq.core.pages import calls as page_calls
from rq_dlq.core.pages.calls import START
from rq_dlq.core.steps.step import Pipeline
from rq_dlq.errors import UnprocessableMessage, UpgradeRequired
from rq_dlq.values.masks import Masks
from rq_dlq.values.message import Received
from rq_dlq.values.wanted import RECORD

if TYPE_CHECKING:
    from rq_dlq._keys import QueueKeys
    from rq_dlq.core.pages.calls import Page, Position
    from rq_dlq.core.steps.step import Steps
    from rq_dlq.values.codec import Codec

CLAIMS, HELD, WAITING = 50, 100, 50  # leases that are checked: the first to lapse, the first to be delivered
KEY, DEPENDENCY = "key", "dependency"
_WORD = re.compile(r"[\w./@+-]+(?::[\w./@+-]+)*")
Facts = Counter[tuple[str, str]]
"""How many messages have each value of each header, each key, and each dependency."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A value that most leased messages have, but not all waiting ones.

    Attributes:
        name: the name of a header, or "key", or "dependency".
        value: of that header, or the key, or the dependency.
        held: how many of the checked messages have it.
        of: how many were checked, at most a hundred.
    """

    name: str
    value: str
    held: int
    of: int

    def __str__(self) -> str:
        word = _WORD.fullmatch(self.value)  # others are quoted: a mask hides a word, or what is quoted
        value = self.value if word else json.dumps(self.value, ensure_ascii=False)
        return f"{self.held:,} of {self.of:,} leased messages have {self.name} = {value}"


def holders(keys: QueueKeys, codec: Codec[Any]) -> Steps[list[Holder]]:
    """The header value that holds the workers of a queue, the key, the dependency; none if none prevails."""
    found: tuple[list[str], Position | None] = yield page_calls.leases(keys, after=START, limit=CLAIMS)
    if not found[0]:
        return []
    lists: list[list[str]] = yield Pipeline([batch_calls.given_ids(keys, token) for token in found[0]])
    ids = [one for some in lists for one in some][:HELD]
    page: Page = yield page_calls.browse(keys, place="leased", ids=ids, wanted=RECORD)
    upto: Position | None = yield page_calls.position(keys, "ready", -1)
    if upto is None:
        return []
    line: Page = yield page_calls.scan(keys, "ready", after=START, upto=upto, limit=WAITING, wanted=RECORD)
    newest: Page = yield page_calls.scan(
        keys, "ready", after=START, upto=upto, limit=WAITING, wanted=RECORD, newest=True
    )
    held = [Received(row, codec, keys.family) for row in page.rows()]
    rows = {row.id: row for row in (*line.rows(), *newest.rows())}
    waiting = [Received(row, codec, keys.family) for row in rows.values()]
    return [*_standing_out(held, waiting)]


def _standing_out(held: list[Received[Any]], waiting: list[Received[Any]]) -> Iterable[Holder]:
    in_work, in_line = _facts(held), _facts(waiting)
    found = [
        (count, -in_line[fact], fact)
        for fact, count in in_work.items()
        if 2 * count > len(held) and in_line[fact] < len(waiting) and count + in_line[fact] > 1
    ]
    found.sort(reverse=True)
    own = {KEY, DEPENDENCY}
    for names in ({fact[0] for *_, fact in found} - own, {KEY}, {DEPENDENCY}):
        best = [(count, fact) for count, _, fact in found if fact[0] in names][:1]
        yield from (Holder(*fact, count, len(held)) for count, fact in best)


def _facts(messages: Iterable[Received[Any]]) -> Facts:
    """The values of headers, except secrets, by their names, the keys, and the dependencies."""
    facts: Facts = Counter()
    for message in messages:
        try:
            headers = dict(message.headers)
            shown = Masks(()).value(headers)
            facts.update((name, value) for name, value in headers.items() if shown[name] == value)
            own = {KEY: message.key, DEPENDENCY: message.dependency}
            facts.update((name, value) for name, value in own.items() if value is not None)
        except (UnprocessableMessage, UpgradeRequired):
            continue
    return facts
