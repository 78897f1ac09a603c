"""A side of the comparison: a broker, and the processes that drive it by lines of JSON."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Self

PATIENCE = 2.5
"""Seconds in which a message has to arrive where it ends."""


class DriverError(Exception):
    """What a driver raised: its type and text."""


class Driver:
    """One process that runs verbs; a kill takes it away without a word to the broker."""

    def __init__(self, command: Sequence[str]) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, start_new_session=True)
        self.ask("ready")  # so that no scenario measures how long it takes to start

    def ask(self, verb: str, **given: Any) -> Any:
        """Run a verb, and return what it says.

        Raises:
            DriverError: it failed.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"verb": verb, **given}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            message = f"the driver ended while it ran {verb!r}"
            raise DriverError(message)
        reply = json.loads(line)
        if "error" in reply:
            raise DriverError(reply["error"])
        return reply["is"]

    def kill(self) -> None:
        """SIGKILL."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(BrokenPipeError):
                pipe.close()  # type: ignore[union-attr]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


@dataclass(frozen=True, slots=True)
class Delivery:
    """One delivery: `at` in milliseconds, by the clock of the process that received it."""

    body: str
    id: str
    count: int
    at: int


@dataclass(frozen=True, slots=True)
class Letter:
    """A message, as an operator finds it in a queue."""

    queue: str
    body: str
    id: str
    origin: str
    cause: str
    priority: int
    headers: Mapping[str, str]


class Consumer:
    """A consumer of one queue, with a session of its own."""

    def __init__(self, driver: Driver, name: str) -> None:
        self._driver, self._name = driver, name

    def receive(self, wait: float = PATIENCE) -> Delivery | None:
        """The next message, if one comes within these seconds."""
        seen = self._driver.ask("receive", consumer=self._name, wait=round(wait * 1000))
        return None if seen is None else Delivery(**seen)

    def take(self, count: int, wait: float = PATIENCE) -> list[Delivery]:
        """So many messages one after the other, or those that come."""
        received = (self.receive(wait) for _ in range(count))
        return [delivery for delivery in received if delivery]

    def rest(self, wait: float = 1.0) -> Iterator[Delivery]:
        """Messages, until none comes for so long."""
        while delivery := self.receive(wait):
            yield delivery

    def do(self, verb: str, **given: Any) -> None:
        """Commit, rollback, recover, close, listen; or ack, nak, term, release, progress of a body."""
        self._driver.ask(verb, consumer=self._name, **given)

    def send(self, queue: str, body: str) -> None:
        """Send in this session."""
        self._driver.ask("send", consumer=self._name, queue=queue, body=body)

    def heard(self) -> list[Delivery]:
        """What the listener got."""
        return [Delivery(**seen) for seen in self._driver.ask("heard", consumer=self._name)]

    def kill(self) -> None:
        """Kill its process, which must be its own."""
        self._driver.kill()


class Side:
    """A broker that runs.

    Args:
        command: what drives it.
        restart: kills the broker with SIGKILL, and starts it again on what is on its disk.
    """

    def __init__(self, command: Sequence[str], restart: Callable[[], None]) -> None:
        self._command, self._restart = command, restart
        self._driver = Driver(command)
        self._consumers = 0

    def send(self, queue: str, body: str, **options: Any) -> str:
        """Send a message; `delay` and `ttl` in milliseconds. Returns its id."""
        return str(self._driver.ask("send", queue=queue, body=body, **options))

    def again(self, queue: str, body: str, id: str) -> None:
        """Send a message that was sent before, with its id."""
        self._driver.ask("again", queue=queue, body=body, id=id)

    def consumer(self, queue: str, *, mode: str = "transacted", **settings: Any) -> Consumer:
        """Open a consumer; a driver passes over settings that its broker does not have.

        Args:
            queue: its queue.
            mode: "transacted", "client" (CLIENT_ACKNOWLEDGE), "auto", or "amqp", each by itself.
            settings: `policy` (Classic's names), `client` (of it, what holds for Classic's client alone),
                `non_blocking`, `prefetch`; `jetstream` (nats-py's names); `streaming` (NATS Streaming's, and
                `work`, seconds that a callback takes, `fails`, whether it does, `preset`, whether ours is
                used); `lease` in seconds; `window`, our `dedup_window`; `ordered`, our `per_key`.
        """
        return self._opened(self._driver, queue, mode, settings)

    @contextmanager
    def process(self, queue: str, *, mode: str = "transacted", **settings: Any) -> Iterator[Consumer]:
        """A consumer in a process of its own, which ends at the end of the block, if it was not killed."""
        with Driver(self._command) as driver:
            yield self._opened(driver, queue, mode, settings)

    def _opened(self, driver: Driver, queue: str, mode: str, settings: Mapping[str, Any]) -> Consumer:
        self._consumers += 1
        name = f"consumer {self._consumers}"
        given = {key: value for key, value in settings.items() if value is not None}
        driver.ask("open", consumer=name, queue=queue, mode=mode, **given)
        return Consumer(driver, name)

    def find(self, body: str, count: int = 1, *, but: str = "", within: float = PATIENCE) -> list[Letter]:
        """Where the messages are whose body begins so: as soon as there are `count`, or when time is up.

        Args:
            body: how it begins.
            count: how many are waited for.
            but: a queue in which they do not count.
            within: seconds.
        """
        deadline = time.monotonic() + within
        while True:
            found = [Letter(**letter) for letter in self._driver.ask("find", body=body)]
            found = [letter for letter in found if letter.queue != but]
            if len(found) >= count or time.monotonic() > deadline:
                return sorted(found, key=lambda letter: (letter.queue, letter.body))
            time.sleep(0.05)

    def retry(self, queue: str, dead: str) -> None:
        """Send all dead letters of a queue back to it."""
        self._driver.ask("retry", queue=queue, dead=dead)

    def operate(self, verb: str, queue: str, **given: Any) -> Any:
        """What an operator does with all messages of a queue: move, die, expire, prioritize, browse."""
        return self._driver.ask(verb, queue=queue, **given)

    def crash(self) -> None:
        """Kill the broker, and start it again. Its consumers are gone."""
        self._driver.kill()
        self._restart()
        self._driver = Driver(self._command)

    def close(self) -> None:
        """End the driver."""
        self._driver.kill()
