"""Runs calls on a server through a plain client, and looks at what they did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeVar
from weakref import WeakKeyDictionary

from fakeredis import FakeRedis
from redis.exceptions import ResponseError

from rq_dlq._keys import MoreKeys, QueueKeys
from rq_dlq._redis.exchange import exchange
from rq_dlq._redis.loading import for_server
from rq_dlq._scripts import Joined
from rq_dlq._scripts.verb import Verbs
from rq_dlq.core.claiming import calls as claiming_calls
from rq_dlq.core.claiming.calls import Claimed, Suspects
from rq_dlq.core.pages import calls as page_calls
from rq_dlq.core.policies import calls as policy_calls
from rq_dlq.core.queues import queue
from rq_dlq.core.sending import calls as sending_calls
from rq_dlq.core.settling import calls as settling_calls
from rq_dlq.core.steps.call import Call, Command, Held, Part, Place, Sender
from rq_dlq.core.steps.replies import Word
from rq_dlq.core.steps.step import Pipeline, Steps, Wait
from rq_dlq.policy import RedeliveryPolicy
from rq_dlq.values.codec import Codec
from rq_dlq.values.failure import Cause
from rq_dlq.values.message import Received
from rq_dlq.values.settlement import Settlement
from rq_dlq.values.wanted import ALL
from tests.conftest import MOVED_CLOCK

R = TypeVar("R")
CAUSE = Cause("Error", "no", "f00", "the traceback")
CODEC: Codec[bytes] = Codec(bytes, 10_000)
LONG = {"m5": b"x" * 3_000}  # bodies of which no script reads what it needs (lua/record.lua, word)
LIVE: tuple[Place, ...] = ("ready", "scheduled")
PLACES: tuple[Place, ...] = (*LIVE, "dead", "expired")


def packed(
    *items: tuple[str, int],
    persistent: bool = True,
    key_of: Mapping[str, str] | None = None,
    body: bytes | None = None,
) -> list[str | bytes]:
    """Messages of these ids and priorities, as the scripts take them.

    Args:
        key_of: the keys of some.
        body: of all; None: those that their ids have.
    """
    pack = [
        CODEC.packer(priority, {}, persistent=persistent, key=(key_of or {}).get(name))
        for name, priority in items
    ]
    return [
        cell
        for (name, _), packer in zip(items, pack, strict=True)
        for cell in (name, packer(LONG.get(name, b"x") if body is None else body))
    ]


_FITTING: WeakKeyDictionary[Any, dict[int, tuple[Joined, Verbs]]] = WeakKeyDictionary()


def fitting(raw: Any, verbs: Joined) -> Verbs:
    """The verbs as this server runs them: Redis 6.2 has no functions. Made once for a client."""
    if not isinstance(verbs, Joined) or isinstance(raw, FakeRedis):  # made by a test; no INFO
        return verbs
    known = _FITTING.setdefault(raw.connection_pool, {})
    if id(verbs) not in known:
        version = raw.info("server")["redis_version"].split(".")
        known[id(verbs)] = verbs, for_server(verbs, tuple(map(int, version)))
    return known[id(verbs)][1]


@dataclass
class Driver:
    """One queue on one server."""

    raw: Any
    policy: RedeliveryPolicy = field(default_factory=RedeliveryPolicy)
    verbs: Joined = MOVED_CLOCK
    keys: QueueKeys = field(default_factory=lambda: QueueKeys("rq", "q"))
    senders: int = 0  # that it had so far
    key_of: Mapping[str, str] = field(default_factory=dict[str, str])  # by ids; of others: none

    @cached_property
    def wire(self) -> bytes:
        """The policy as the scripts take it."""
        return queue.encode_policy(self.policy.as_wire())

    def configure_call(self, settings: Mapping[str, str] | None = None) -> Call[Word]:
        """The call that makes the policy the queue's, or these settings."""
        wire = {"redelivery": self.wire.decode()} if settings is None else settings
        before = self.raw.hget(self.keys["settings"], "version") or b""
        return policy_calls.configure(
            self.keys, wire, version=0, version_before=before, declared_before=b"", declared=b""
        )

    def sender(self) -> Sender:
        """A new sender, for one call."""
        self.senders += 1
        return Sender(MoreKeys(self.keys, {"sender": self.keys.sender(f"s{self.senders}")}), 1)

    def run(self, call: Call[R] | Command[R], *, repeated: bool = False) -> R:
        """Run a call; `repeated` says that it is the second try of one whose reply was lost."""
        result: R = self.run_all(call, repeated=repeated)[0]
        return result

    def run_all(self, *calls: Call[Any] | Command[Any], repeated: bool = False) -> list[Any]:
        """Run calls one after the other, in one round trip."""
        talk = exchange(calls, fitting(self.raw, self.verbs), repeated=repeated)
        commands = next(talk)
        while True:
            try:
                commands = talk.send(self._replies(commands))
            except StopIteration as stop:
                results: list[Any] = stop.value
                return results

    def follow(self, steps: Steps[R]) -> R:
        """Run steps of calls and batches of calls; what they return."""
        value: Any = None
        while True:
            try:
                step = steps.send(value)
            except StopIteration as stop:
                result: R = stop.value
                return result
            assert not isinstance(step, Wait)
            value = self.run_all(*step.calls) if isinstance(step, Pipeline) else self.run(step)

    def settle(self, call: Call[list[Settlement]]) -> bool:
        """Run a call that settles; whether all of its messages were its own to settle."""
        settlements = self.run(call)
        return all(settlements)

    def _replies(self, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
        if len(commands) == 1:  # a pipeline takes longer
            try:
                return [self.raw.execute_command(*commands[0])]
            except ResponseError as error:
                return [error]
        pipeline = self.raw.pipeline(transaction=False)
        for command in commands:
            pipeline.execute_command(*command)
        replies: list[Any] = pipeline.execute(raise_on_error=False)
        return replies

    def send_call(
        self,
        *items: tuple[str, int],
        delay: int = 0,
        ttl: int = 0,
        persistent: bool = True,
        limited: bool = False,
    ) -> Call[sending_calls.Taken | None]:
        """Messages of these ids and priorities."""
        given = self.packed(*items, persistent=persistent)
        enter = sending_calls.send_limited if limited else sending_calls.send
        return enter(self.sender(), delay=delay, ttl=ttl, items=given)

    def resend_call(
        self,
        *items: tuple[str, int],
        mode: str,
        delay: int = 0,
        ttl: int = 0,
        body: bytes = b"y",
        max_delay: int = 2_000,
        known_for: int = 0,
        sender: Sender | None = None,
    ) -> Call[sending_calls.Taken | None]:
        """Messages of these ids and priorities, some of which may be known."""
        return sending_calls.resend(
            sender or self.sender(), delay=delay, ttl=ttl, items=self.packed(*items, body=body), mode=mode,
            max_delay=max_delay, known_for=known_for,
        )  # fmt: skip

    def packed(
        self, *items: tuple[str, int], persistent: bool = True, body: bytes | None = None
    ) -> list[str | bytes]:
        """As the scripts take them, with their keys."""
        return packed(*items, persistent=persistent, key_of=self.key_of, body=body)

    def claim_call(
        self,
        token: str,
        count: int = 1,
        *,
        part: Part = "live",
        lease: int = 30_000,
        patience: int = 0,
        alarmed: bool = False,
        suspects: Suspects = "all",
        thorough: bool = False,
        seed: float = 0.25,
        answer: Literal["rows", "count"] = "rows",
    ) -> Call[Claimed]:
        """A claim under a token of the caller's."""
        return claiming_calls.claim(
            self.keys, part=part, token=token, count=count, lease=lease, patience=patience, alarmed=alarmed,
            suspects=suspects, thorough=thorough, consumer='"c"', seed=seed, default_policy=self.wire,
            answer=answer,
        )  # fmt: skip

    def poison_call(
        self, held: Sequence[Held], reason: Literal["poison", "unprocessable"] = "poison", seed: float = 0.25
    ) -> Call[list[Settlement]]:
        """Poison, by the queue's policy."""
        return settling_calls.poison(
            self.keys, held, reason=reason, cause=CAUSE, consumer='"c"', seed=seed, default_policy=self.wire
        )

    def pass_on_call(
        self, held: Sequence[Held], mark: str = "", takers: Sequence[str] = ()
    ) -> Call[list[Settlement]]:
        """Pass on, by whom takes something else, or nothing."""
        return settling_calls.pass_on(self.keys, held, mark=mark, takers=takers, cause=CAUSE, consumer='"c"')

    def browse(self, place: Place) -> list[Received[bytes]]:
        """All that is at a place, in order."""
        return self.browse_all([place])[0]

    def browse_all(self, places: Sequence[Place]) -> list[list[Received[bytes]]]:
        """The same of several places, in one round trip."""
        calls = [
            page_calls.scan(
                self.keys, place, after=page_calls.START, upto=page_calls.END, limit=1_000, wanted=ALL
            )
            for place in places
            if place != "leased"
        ]
        return [[Received(row, CODEC, "q") for row in page.rows()] for page in self.run_all(*calls)]

    def look_up(self, ids: list[str]) -> dict[str, tuple[Received[bytes], int]]:
        """These messages wherever they are, each with the end of its lease."""
        rows = self.run(page_calls.browse(self.keys, ids=ids)).rows() if ids else []
        return {row.id: (Received(row, CODEC, "q"), row.lease_until) for row in rows}
