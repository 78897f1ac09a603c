"""T25: hostile names, ids, headers, bodies, errors: refused or inert, by the API and the command line."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import yaml
from click.testing import CliRunner

import rq_dlq
from rq_dlq.cli import main
from rq_dlq.errors import RqDlqError
from tests.audit import audit
from tests.contents import contents
from tests.proofs.reliability.row import Figures, Row, Run
from tests.proofs.reliability.typed import COMMANDS, Typed
from tests.servers import Server

TABLE = Path(__file__).parents[1] / "data" / "hostile.yaml"
NAMESPACE = "ours"
STEERS = {
    "C0": r"[\x00-\x08\x0b-\x1f]",
    "DEL and C1": r"[\x7f-\x9f]",
    "direction": r"[\u202a-\u202e\u2066-\u2069]",
}
RAW_CONTROL = re.compile("|".join(STEERS.values()))
FEW = 15  # texts
Way = Callable[[Any, str], None]


@cache
def texts() -> tuple[str, ...]:
    """All rows of the table."""
    table: list[Any] = yaml.safe_load(TABLE.read_text())
    return tuple(row["text"] * row["times"] if isinstance(row, dict) else row for row in table)


# Through the API: what is not refused comes back as it went in.


def _as_queue(broker: rq_dlq.Broker, text: str) -> None:
    queue = broker.queue(text)
    if queue.name != text:
        raise AssertionError(queue.name)
    queue.send("x")
    (delivery,) = queue.claim()
    delivery.poison("bad")
    assert len(queue.dlq.browse()) == 1
    assert text in broker.queues()


def _as_id(broker: rq_dlq.Broker, text: str) -> None:
    queue = broker.queue("safe")
    sent = queue.send("x", id=text)
    assert sent == text
    (delivery,) = queue.claim()
    assert delivery.id == text
    delivery.poison("bad")
    assert queue.dlq.redrive(ids=[text]).counts.moved
    assert queue.select(ids=[text], places=["ready"]).purge() == 1


def _as_content(broker: rq_dlq.Broker, text: str) -> None:
    queue = broker.queue("safe")
    queue.send(text, headers={text: text})
    (delivery,) = queue.claim()
    assert (delivery.body, delivery.headers) == (text, {text: text})
    delivery.nack(text)
    queue.maintain()


def _as_reason(broker: rq_dlq.Broker, text: str) -> None:
    queue = broker.queue("safe")
    queue.send("x")
    (delivery,) = queue.claim()
    delivery.poison(ValueError(text))
    (letter,) = queue.dlq.browse()
    assert letter.cause.type == "ValueError"
    assert letter.cause.message == text[: len(letter.cause.message)]
    (group,) = queue.dlq.groups()
    queue.dlq.redrive(group=group.fingerprint)


def _as_filter(broker: rq_dlq.Broker, text: str) -> None:
    queue = broker.queue("safe")
    queue.send("x", id="stays")
    queue.select(text).count()
    queue.dlq.redrive(group=text)
    queue.dlq.browse(reason=text)
    assert queue.stats().ready == 1


def _as_pattern(broker: rq_dlq.Broker, text: str) -> None:
    broker.policies.set(text, max_in_flight=7)
    broker.policies.explain("safe")
    broker.policies.remove(text)


def _as_namespace(broker: rq_dlq.Broker, text: str) -> None:
    with rq_dlq.Broker(broker._address(), namespace=f"{NAMESPACE}:{text}") as inner:
        inner.queue("safe").send("x")
        assert inner.queues() == ["safe"]


def _as_dead_letter_queue(broker: rq_dlq.Broker, text: str) -> None:
    queue = broker.queue("safe", dead_letter=rq_dlq.SharedDeadLetterStrategy(text))
    queue.send("x")
    queue.poison(queue.claim())
    assert [letter.id for letter in broker.queue(text).claim()]


WAYS: dict[str, Way] = {
    "a queue": _as_queue,
    "an id": _as_id,
    "headers and a body": _as_content,
    "an error": _as_reason,
    "a filter": _as_filter,
    "a pattern": _as_pattern,
    "a namespace": _as_namespace,
    "a shared dead-letter queue": _as_dead_letter_queue,
}
HARMLESS = "word"


@dataclass
class Trial:
    """One text in all its ways; what was wrong is in `wrong`."""

    raw: Any
    url: str
    text: str
    wrong: list[str]
    trials: int = 0

    def run(self) -> None:
        """Try it."""
        for name, way in WAYS.items():
            self.begin()
            with rq_dlq.Broker(self.url, namespace=NAMESPACE) as broker:
                try:
                    way(broker, self.text)
                except RqDlqError as error:
                    self.refused(name, error)
                except Exception as error:  # noqa: BLE001 - a finding
                    self.wrong.append(f"{self.text[:60]!r} as {name}: {type(error).__name__}: {error}")
            self.look(name)
        self.begin()
        self.hold()
        with rq_dlq.Broker(self.url, namespace=NAMESPACE) as broker:
            for command in COMMANDS:
                if command.takes(self.text):
                    self.type(broker, command, self.text)

    def rehearse(self) -> None:
        """Each command succeeds with what is harmless, so that it is the text that is refused later."""
        for command in COMMANDS:
            self.begin()
            self.hold()
            with rq_dlq.Broker(self.url, namespace=NAMESPACE) as broker:
                text = command.harmless if isinstance(command.harmless, str) else command.harmless(broker)
                if self.type(broker, command, text) != 0:
                    self.wrong.append(f"{command.command}: fails with {text!r}, too")

    def begin(self) -> None:
        """An empty server, but for what is somebody else's."""
        self.trials += 1
        self.raw.flushall()
        self.raw.set("theirs", "untouched")
        self.raw.set("rq:{safe}:messages", "theirs, too")

    def hold(self) -> None:
        """A queue whose every part shows the text, as far as it can be one."""
        with rq_dlq.Broker(self.url, namespace=NAMESPACE) as broker:
            queue = broker.queue("safe")
            for way in (
                {"body": self.text},
                {"body": 1, "headers": {"a": self.text}},
                {"body": 2, "id": self.text},
            ):
                try:
                    queue.send(**way)
                except RqDlqError:
                    queue.send("in its place")
            first, _, third = queue.claim(3)
            first.nack(self.text, delay=0)
            third.poison(RuntimeError(self.text))

    def refused(self, name: str, error: RqDlqError) -> None:
        """What is refused says so in a sentence, in which the text does no harm."""
        if len(str(error)) > 1_000:
            self.wrong.append(f"{self.text[:60]!r} as {name}: an error of {len(str(error)):,} characters")

    def look(self, name: str) -> None:
        """Nothing outside the prefix, and all keys agree."""
        foreign = {key for key in self.raw.keys("*") if not key.startswith(NAMESPACE.encode())}
        if foreign != {b"theirs", b"rq:{safe}:messages"} or self.raw.get("theirs") != b"untouched":
            self.wrong.append(f"{self.text[:60]!r} as {name}: touched {foreign}")
        try:
            for family in self.raw.smembers(f"{NAMESPACE}:queues"):
                audit(self.raw, family.decode(), NAMESPACE)
        except AssertionError as error:
            self.wrong.append(f"{self.text[:60]!r} as {name}: {error}")

    def type(self, broker: rq_dlq.Broker, command: Typed, text: str) -> int:
        """A command with the text in it, which does what the API does; its exit code."""
        self.trials += 1
        meant = command.meant(broker, text)
        piped = command.piped(text) if command.piped else None
        options = ["--url", self.url, "--namespace", NAMESPACE]
        result = CliRunner().invoke(main, [*options, *command.words(text)], input=piped)
        shown = f"{text[:60]!r} typed: {command.command}"
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            self.wrong.append(f"{shown}: {type(result.exception).__name__}: {result.exception}")
        elif result.exit_code not in meant:
            said = result.output.strip()[-200:]
            self.wrong.append(f"{shown}: exit code {result.exit_code}, not {meant}: {said!r}")
        elif result.exit_code == 0 and not command.came(broker, text):
            self.wrong.append(f"{shown}: it says that it is done, and is not")
        if RAW_CONTROL.search(result.output):
            self.wrong.append(f"{shown}: control characters reach the terminal: {result.output[-200:]!r}")
        self.look(command.command)
        return result.exit_code


def some(drawn: Random) -> list[str]:
    """A few texts; among them, for each kind of characters that steer a terminal, one that can be typed."""
    kinds = [
        [text for text in texts() if re.search(kind, text) and "\0" not in text] for kind in STEERS.values()
    ]
    chosen = [drawn.choice(kind) for kind in kinds]
    return chosen + drawn.sample([text for text in texts() if text not in chosen], FEW - len(chosen))


def run(run: Run) -> Figures:
    """Every text in every way."""
    wrong: list[str] = []
    trials = 0
    chosen = run.pick(short=some(run.random), whole=list(texts()))
    with Server(run.directory) as server, server.client() as raw:
        Trial(raw, server.url, HARMLESS, wrong).rehearse()
        for number, text in enumerate(chosen):
            run.done(number, len(chosen), repr(text[:20]))
            trial = Trial(raw, server.url, text, wrong)
            trial.run()
            trials += trial.trials
            contents(raw)
    hacked = [path for path in (Path("hacked"), run.directory / "hacked") if os.path.lexists(path)]
    wrong += [f"{path} was made" for path in hacked]
    for each in wrong:
        run.progress.console.print(each, markup=False)
    note = "; ".join([f"{len(chosen)} texts", *wrong[:1]])
    return Figures(trials=trials, met=not wrong, note=note)


ROWS = (
    Row(
        "T25",
        "hostile names, ids, headers, bodies, errors through the API and the command line",
        "100 of 100 refused or inert; no key outside the prefix",
        run,
    ),
)
