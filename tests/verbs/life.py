"""The life of messages in two queues, each verb of it once, and each result looked at.

Whoever runs it over a network that fails sees whether each call was done exactly once: one that was done
twice, or not at all, shows in what the next ones find, and in the totals of the queues.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, TypeAlias, TypeVar

import redis

from rq_dlq import BrokerUnavailable, KnownId, Message, RedeliveryPolicy
from rq_dlq._keys import MoreKeys, QueueKeys, queues
from rq_dlq._scripts import JOINED
from rq_dlq.core.sending import calls as sending_calls
from rq_dlq.core.steps.call import Sender
from tests.audit import audit
from tests.verbs import VERBS, names

T = TypeVar("T")
Facts: TypeAlias = tuple[str, int, int, int, int, int]
"""Id, deliveries, nacked, released, redriven, events in its history."""
IN_AN_HOUR = RedeliveryPolicy(delays=["1h"])
REMEMBERED = 1_800_000  # milliseconds that a call can be repeated, at least
WINDOW = 3_600_000  # milliseconds that the first queue remembers acked ids
PATIENCE = 100  # times that a call is repeated while its outcome is not known
CLAIMED = 6  # messages, at most, in one claim
TOTALS = {
    "a": {
        "sent": 6, "acked": 4, "nacked": 2, "released": 3, "poison": 2, "expired": 1, "redriven": 2,
        "purged": 1, "moved": 1,
    },
    "b": {"sent": 4, "acked": 3, "cancelled": 1},
}  # fmt: skip
"""What one life adds to the totals of two of its queues."""
_ONCE = "no life needs it; its reply is lost once in tests/test_verbs"
ELSEWHERE = {
    **dict.fromkeys(names(VERBS, "batch", "job"), "of Spark: tests/proofs/spark_chaos"),
    **dict.fromkeys(names(VERBS, "upkeep"), "it is done until nothing is left, whatever was replied"),
    **dict.fromkeys(names(VERBS, "look"), "it changes nothing"),
    **dict.fromkeys(names(VERBS, "configure"), _ONCE),
    **dict.fromkeys(("pause", "pause_lane", "limit_lane", "probe_lane", "reset", "restore", "mute"), _ONCE),
    **dict.fromkeys(("start_redrive", "offer_redrive", "steer_redrive", "undo_redrive"), _ONCE),
    "resend": "its reply is lost in behaviour/sending/test_known_ids, for each mode",
    "send_limited": "it does what send does, beside a limit: T48",
    "pass_on": "of what this program does not take: T39",
    **dict.fromkeys(
        ("open_gather", "send_children", "close_gather", "cancel_gather"),
        "of gathers: model/test_gathers, and T47",
    ),
}
"""The verbs that are in no life, and why."""


class CutShort(Exception):  # noqa: N818 - no error: the harness did it
    """A call was ended from outside, and its outcome is not known."""


async def undisturbed(call: Callable[[], Awaitable[T]]) -> T:
    """How a call is made where nothing disturbs it."""
    return await call()


class Life:
    """Lives of messages, one after the other, in queues of its own: a, b, and c, which others delete.

    Args:
        make: how each call is made; it may raise CutShort.

    Attributes:
        calls: how often each verb was said, repetitions left out.
        acknowledged: messages of which it was told that they are in a queue.
        unknown: how often a call ended without its outcome being known, and was repeated.
        cut_off: how many of these were claims that were cut off, and may have released what they took.
        wrong: what was not as it had to be.
    """

    def __init__(self, broker: Any, name: str, make: Callable[..., Awaitable[Any]] = undisturbed) -> None:
        self.name = name
        self._make = make
        self.a = broker.queue(f"{{{name}}}.a", redelivery=IN_AN_HOUR, dedup_window=WINDOW / 1000)
        self.b = broker.queue(f"{{{name}}}.b", redelivery=IN_AN_HOUR)
        self.dead = broker.queue(f"DLQ.{self.a.name}")
        self.c, self.c_in_bulk, self._deleter = (broker.queue(f"{{{name}}}.c") for _ in range(3))
        self.lived = 0
        self.calls: Counter[str] = Counter()
        self.acknowledged = 0
        self.unknown = self.cut_off = 0
        self.wrong: list[str] = []

    async def live(self) -> None:
        """One life."""
        names = [f"{self.lived}-{n}" for n in range(6)]
        await self._be_born(names)
        await self._be_claimed(names)
        await self._fail_once_more()
        await self._be_managed(names)
        await self._be_done(names)
        await self._be_cancelled(f"{names[0]}-back")
        await self._outlive_a_queue()
        self.lived += 1

    async def _be_born(self, names: list[str]) -> None:
        first, *others = names
        await self.say("open", self.b.open, counted=False)
        unknown = self.unknown
        known = await self._is_known(first)
        self.see("known at birth", known and self.unknown == unknown, False)
        self.acknowledged += 1
        messages = [Message(body=n, id=name) for n, name in enumerate(others, start=1)]
        self.acknowledged += len(await self.say("send", lambda: self.a.send_many(messages)))

    async def _is_known(self, name: str) -> bool:
        """Send it as a new message; whether the queue says that it is not."""
        try:
            await self.say("send", lambda: self.a.send(0, id=name, on_duplicate="raise"))
        except KnownId:
            return True
        return False

    async def _be_claimed(self, names: list[str]) -> None:
        held = await self.say("claim", lambda: self.a.claim(6))
        self.see("claimed", [(d.id, d.body, d.delivery_count - self._given_back(d.released)) for d in held], [
            (name, n, 1) for n, name in enumerate(names)
        ])  # fmt: skip
        await self.say("extend", held[0].extend)
        await self.say("progress", lambda: held[0].progress(0.5, "half"))
        await self.say("ack", held[0].ack)
        await self.say("nack", lambda: held[1].nack("boom"))
        await self.say("poison", lambda: held[2].poison("bad"))
        released = await self.say("release", lambda: self.a.release(held[3:]))
        self.see("released", [bool(settlement) for settlement in released], [True] * 3)

    async def _fail_once_more(self) -> None:
        """A dead letter that fails stays one, and rests."""
        (letter,) = await self.say("claim", lambda: self.dead.claim(1))
        settlement = await self.say("nack", lambda: letter.nack("again"), counted=False)
        self.see("failed once more", bool(settlement), True)
        self.see("claimed while it rests", await self.say("claim", lambda: self.dead.claim(1)), [])

    async def _be_managed(self, names: list[str]) -> None:
        _, nacked, poisoned, *released = names
        await self.say("deliver_now", lambda: self.a.select(ids=[nacked]).deliver_now())
        await self.say("dead_letter", lambda: self.a.select(ids=released[:1]).dead_letter("by hand"))
        await self.say("expire_now", lambda: self.a.select(ids=released[1:2]).expire())
        await self.say("redrive", lambda: self.a.dlq.select(ids=[poisoned, released[0]]).redrive())
        await self.say("prioritize", lambda: self.a.select(ids=released[2:]).prioritize(9))
        await self.say("transfer", lambda: self.a.select(ids=[nacked]).move(self.b))
        await self.say("purge", lambda: self.a.expired.purge(ids=released[1:2]))

    async def _be_cancelled(self, name: str) -> None:
        """Once; who asks again, since it was not told, hears that the message is gone."""
        await self.say("send", lambda: self.b.send("x", id=name), counted=False)
        unknown = self.unknown
        word = await self.say("cancel", lambda: self.b.cancel(name))
        expected = {"cancelled"} if self.unknown == unknown else {"cancelled", "unknown"}
        self.see("cancelled", word in expected, True)

    async def _be_done(self, names: list[str]) -> None:
        session = self.a.session()
        first = await self.say("claim", lambda: session.claim(1, wait="1s"))
        self._see_facts("the first", first, [(names[5], 2, 0, 1, 0, 0)])
        await self.say("send", lambda: session.send(self.b, "new", id=f"{names[0]}-new"), counted=False)
        self.see("committed", await self.say("commit", session.commit), 1)
        self.acknowledged += 1
        second = self.b.session()
        moved = await self.say("claim", lambda: second.claim(3))
        self._see_facts("moved", moved, [(names[1], 2, 1, 0, 0, 2), (f"{names[0]}-new", 1, 0, 0, 0, 0)])
        self.see("committed", await self.say("ack_all", second.commit), 2)
        rest = await self.say("claim", lambda: self.a.claim(6))
        self._see_facts("the rest", rest, [(names[2], 3, 1, 0, 1, 3), (names[3], 2, 0, 1, 1, 2)])
        links = [(self.b, Message("next", id=f"{names[0]}-link"))]
        chained = await self.say("commit", lambda: rest[0].ack(send=links))
        self.see("chained", chained.outcome, "acked")
        self.acknowledged += 1
        linked = await self.say("claim", lambda: self.b.claim(3))
        self._see_facts("linked", linked, [(f"{names[0]}-link", 1, 0, 0, 0, 0)])
        for queue, held in ((self.a, rest[1:]), (self.b, linked)):
            acked = await self.say("ack", partial(queue.ack, held))
            self.see("acked", [bool(settlement) for settlement in acked], [True])
        self.see("known after its ack", await self._is_known(names[0]), True)

    async def _outlive_a_queue(self) -> None:
        """Who sends to a queue that was deleted since opens it again; `look` sees whether."""
        await self.say("delete", lambda: self._deleter.delete(force=True))
        await self.say("send", lambda: self.c.send("x", id="x"))
        await self.say("send", lambda: self.c_in_bulk.send_many([Message(body="y", id="y")]), counted=False)

    def _see_memory(self, raw: Any) -> None:
        """An id that was acked nine tenths of the window ago is known, and all go after their time."""
        keys = QueueKeys("rq", self.a.name)
        client = raw if isinstance(raw, redis.Redis) else raw.at(keys["acked_ids"])
        client.zincrby(keys["acked_ids"], -0.9 * WINDOW, "0-0")
        register = keys.sender("look")
        sender = Sender(MoreKeys(keys, {"sender": register}), 1)
        call = sending_calls.send(sender, delay=0, ttl=0, items=["0-0", b"\x04x"])
        text = JOINED.as_form("bare")
        _, _, *arguments = call.command(text)
        known = client.execute_command("EVAL", text[call.verb].source, *arguments)
        self.see("known after nine tenths of the window", known, [0, 1, b"acked/0"])
        self.see("remembered for the window", client.pttl(keys["acked_ids"]) > 0.9 * WINDOW, True)
        client.delete(register)

    async def say(self, verb: str, call: Callable[[], Awaitable[T]], *, counted: bool = True) -> T:
        """Call, and call again while the outcome is not known."""
        self.calls[verb] += counted
        for _ in range(PATIENCE):
            try:
                return await self._make(call)  # type: ignore[no-any-return]
            except (BrokerUnavailable, CutShort) as error:
                self.unknown += 1
                self.cut_off += verb == "claim" and isinstance(error, CutShort)
        message = f"{verb}: no outcome in {PATIENCE} calls"
        raise TimeoutError(message)

    def see(self, what: str, found: Any, expected: Any) -> None:
        """Note what is not as it has to be."""
        if found != expected:
            self.wrong.append(f"{self.name}, life {self.lived}: {what}: {found}, not {expected}")

    def _see_facts(self, what: str, deliveries: Any, expected: list[Facts]) -> None:
        """Note what is not as it has to be; what claims that were cut off gave back is left out."""
        usual = {name: released for name, _, _, released, _, _ in expected}
        found: list[Facts] = []
        for d in deliveries:
            more = self._given_back(d.released, usual.get(d.id, 0))
            found.append(
                (d.id, d.delivery_count - more, d.nacked, d.released - more, d.redriven, len(d.history))
            )
        self.see(what, found, expected)

    def _given_back(self, released: int, usual: int = 0, most: int = 1) -> int:
        """How many releases more than usual there are, if claims that were cut off can have made them.

        Args:
            most: that one such claim makes.
        """
        more = released - usual
        return more if 0 < more <= most * self.cut_off else 0

    def look(self, raw: Any) -> None:
        """When all is done, look at the keys: nothing is left, no lease either, and all happened once."""
        registers = raw.keys(QueueKeys("rq", self.a.name).sender("*"))
        later = [
            one for one in registers if not (raw.get(one) or b"1 ").startswith(b"1 ")
        ]  # than a first call
        shortest = min(map(raw.pttl, later), default=0)
        if self.lived and shortest < REMEMBERED:
            self.wrong.append(f"{self.name}: a call is forgotten {shortest / 1000:.0f} s after this")
        for register in [*registers, *raw.keys(QueueKeys("rq", self.b.name).sender("*"))]:
            raw.delete(register)  # else each audit looks at all of them
        if self.lived:
            self._see_memory(raw)
        left = QueueKeys("rq", self.c.name)
        found = raw.sismember(queues("rq"), left.family), sorted(raw.hkeys(left["messages"]))
        self.see("what outlived its queue", found, (True, [b"x", b"y"]) if self.lived else (False, []))
        for part, queue in (("a", self.a), ("b", self.b)):
            name = queue.name
            try:
                self.see(f"left in {name}", dict(audit(raw, name)), {})
            except AssertionError as error:
                self.wrong.append(f"{name}: {error}")
            counters = raw.hgetall(QueueKeys("rq", name)["counters"])
            totals = {key.decode(): int(value) for key, value in counters.items()}
            totals.pop("birth", None)
            expected = {verb: times * self.lived for verb, times in TOTALS[part].items() if self.lived}
            if more := self._given_back(totals.get("released", 0), expected.get("released", 0), CLAIMED):
                expected["released"] = expected.get("released", 0) + more
            self.see(f"totals of {name}", totals, expected)


def drive(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that awaits nothing but `Awaited` blocking calls."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]
    message = "it awaits something else"
    raise RuntimeError(message)
