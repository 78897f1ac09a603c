"""What an observer of a broker sees, without a worker."""

from __future__ import annotations

import gc
import logging
import weakref
from collections.abc import Generator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any

import pytest

import rq_dlq
from rq_dlq import ConfigurationError, KnownId, LeaseLost, Message, Observer, Poison, Sending, Settled
from tests.behaviour.helpers import after, one
from tests.conftest import Clock
from tests.variants import both_colours

CURRENT = ContextVar("current", default="")


class Recorder(Observer):
    """Writes down what it sees, and gives each message a header."""

    def __init__(self, **headers: str) -> None:
        self.seen: list[str] = []
        self.settlements: list[Settled] = []
        self.sendings: list[Sending] = []
        self.headers = headers

    @contextmanager
    def sending(self, sending: Sending) -> Generator[None]:
        self.sendings.append(sending)
        sending.carried.update(self.headers)
        with self.noted(f"send {sending.queue}"):
            yield

    @contextmanager
    def handling(self, delivery: Any) -> Generator[None]:
        token = CURRENT.set(delivery.id)
        with self.noted(f"handle {delivery.id}"):
            yield
        CURRENT.reset(token)

    def settled(self, settled: Settled) -> None:
        self.seen.append(f"{settled.id} {settled.outcome}")
        self.settlements.append(settled)

    @contextmanager
    def noted(self, what: str) -> Generator[None]:
        self.seen.append(f"{what}:")
        with suppress(Exception):  # what a context swallows is raised all the same
            try:
                yield
            except BaseException as error:
                self.seen.append(f"{what}: {type(error).__name__}")
                raise
            self.seen.append(f"{what}.")


def observed(broker: Any, **headers: str) -> Recorder:
    recorder = Recorder(**headers)
    broker.observe(recorder)
    return recorder


async def test_a_send(broker: Any) -> None:
    queue = broker.queue("orders")
    recorder = observed(broker, trace="t")
    sent = await queue.send("body", headers={"tenant": "acme"})
    assert recorder.seen == ["send orders:", "send orders."]
    (sending,) = recorder.sendings
    assert (sending.id, sending.count, sending.headers) == (sent, 1, {"tenant": "acme"})
    assert (await one(queue)).headers == {"tenant": "acme", "trace": "t"}


async def test_a_send_that_fails(broker: Any) -> None:
    queue = broker.queue("orders")
    recorder = observed(broker)
    await queue.send("body", id="m")
    with pytest.raises(KnownId):
        await queue.send("body", id="m", on_duplicate="raise")
    assert recorder.seen[2:] == ["send orders:", "send orders: KnownId"]


async def test_a_batch_is_one_send_and_who_has_a_header_keeps_it(broker: Any) -> None:
    queue = broker.queue("orders")
    recorder = observed(broker, trace="t", state="s")
    bodies = ["a", Message(body="b", headers={"tenant": "x"}), Message(body="c", headers={"trace": "own"})]
    await queue.send_many(bodies)
    assert [(sending.id, sending.count) for sending in recorder.sendings] == [(None, 3)]
    assert [delivery.headers for delivery in await queue.claim(9)] == [
        {"trace": "t", "state": "s"},
        {"tenant": "x", "trace": "t", "state": "s"},
        {"trace": "own"},
    ]


async def test_a_task(broker: Any) -> None:
    @broker.task(queue="mail")
    def greet(name: str) -> None:
        del name

    recorder = observed(broker, trace="t")
    await greet.send("Emmy")
    assert recorder.seen == ["send mail:", "send mail."]
    assert (await one(broker.queue("mail"))).headers == {"task": "greet", "trace": "t"}


async def test_a_session(broker: Any) -> None:
    orders, invoices = broker.queue("orders"), broker.queue("invoices")
    await orders.send_many(["a", "b"])
    recorder = observed(broker, trace="t")
    async with orders.session() as session:
        held = await session.claim(2)
        sent = await session.send(invoices, "bill")
        assert recorder.seen == ["send invoices:", "send invoices."]
    assert [(sending.id, sending.staged) for sending in recorder.sendings] == [(sent, True)]
    assert recorder.seen[2:] == [f"{delivery.id} acked" for delivery in held]
    assert (await one(invoices)).headers == {"trace": "t"}


async def test_an_ack_that_sends(broker: Any) -> None:
    """As a session of one message; refused, it settles nothing."""
    orders, invoices = broker.queue("orders"), broker.queue("invoices")
    await orders.send("a")
    await invoices.send("before", id="known")
    held = await one(orders)
    recorder = observed(broker, trace="t")
    with pytest.raises(KnownId):
        await held.ack(send=[(invoices, Message("bill", id="known"))])
    await held.ack(send=[(invoices, Message("bill", headers={"tenant": "x"}))])
    assert [sending.staged for sending in recorder.sendings] == [True, True]
    assert recorder.seen == ["send invoices:", "send invoices."] * 2 + [f"{held.id} acked"]
    assert (await invoices.claim(2))[1].headers == {"tenant": "x", "trace": "t"}


async def test_a_with_block(broker: Any) -> None:
    queue = broker.queue("orders")
    await queue.send("body", id="m")
    recorder = observed(broker)
    delivery = await one(queue)
    async with delivery:
        assert CURRENT.get() == "m"
    assert CURRENT.get() == ""
    assert recorder.seen == ["handle m:", "handle m.", "m acked"]
    assert recorder.settlements[0].delivery is getattr(delivery, "inner", delivery)


async def test_blocks_inside_each_other_are_one_handling(broker: Any) -> None:
    queue = broker.queue("orders")
    await queue.send("body", id="m")
    recorder = observed(broker)
    delivery = await one(queue)
    async with delivery:
        async with delivery:
            pass
        assert CURRENT.get() == "m"
    assert recorder.seen == ["handle m:", "m acked", "handle m."]


async def test_a_death_has_its_error_and_its_group(broker: Any, clock: Clock) -> None:
    queue = broker.queue("orders", redelivery=after("1s", most=1))
    await queue.send("body", id="m")
    recorder = observed(broker)
    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            async with await one(queue):
                raise ValueError("no")
        clock.advance("2s")
    assert recorder.seen == [
        "handle m:",
        "handle m: ValueError",
        "m redelivered",
        "handle m:",
        "handle m: ValueError",
        "m dead",
    ]
    again, dead = recorder.settlements
    assert (again.delay, dead.delay) == (1.0, None)
    assert isinstance(dead.error, ValueError)
    (group,) = await queue.dlq.groups()
    assert dead.cause.fingerprint == group.fingerprint
    assert dead.delivery is not None
    assert dead.delivery.delivery_count == 2


async def test_by_hand_and_in_batches(broker: Any) -> None:
    queue = broker.queue("orders", redelivery=after("1s"))
    for name in "abcd":
        await queue.send(name, id=name)
    recorder = observed(broker)
    a, b, c, d = await queue.claim(4)
    await a.nack("later")
    await b.release()
    await queue.ack([c])
    await queue.poison([d], Poison("bad"))
    assert recorder.seen == ["a redelivered", "b released", "c acked", "d dead"]
    assert [type(one.error).__name__ for one in recorder.settlements] == [
        "str",
        "NoneType",
        "NoneType",
        "Poison",
    ]
    assert all(one.delivery is None for one in recorder.settlements)


@both_colours("the loop is in the files `own.py`")
async def test_a_loop(broker: Any) -> None:
    queue = broker.queue("orders")
    await queue.send_many(["a", "b"])
    recorder = observed(broker)
    ids = []
    async for delivery in queue.consume():
        async with delivery:
            ids.append(delivery.id)
    first, second = ids
    assert [line for line in recorder.seen if line.startswith("handle")] == [
        f"handle {first}:", f"handle {first}.", f"handle {second}:", f"handle {second}."
    ]  # fmt: skip
    assert [one.outcome for one in recorder.settlements] == ["acked", "acked"]
    assert all(one.delivery is not None for one in recorder.settlements)


async def test_a_body_that_does_not_decode(broker: Any) -> None:
    await broker.queue("orders").send(b"text", id="m")
    recorder = observed(broker)
    assert await broker.queue("orders", type=int).claim() == []
    (settled,) = recorder.settlements
    assert (settled.id, settled.outcome, settled.delivery) == ("m", "dead", None)
    assert settled.cause.type == "rq_dlq.errors.UnprocessableMessage"


async def test_a_lost_lease(broker: Any, clock: Clock) -> None:
    queue = broker.queue("orders")
    await queue.send("body", id="m")
    recorder = observed(broker)
    delivery = await one(queue, lease="1s")
    clock.advance("2s")
    await queue.claim()
    with pytest.raises(LeaseLost):
        async with delivery:
            pass
    assert recorder.seen[-1] in {"m lost", "m gone"}


async def test_what_an_observer_raises_is_logged_and_changes_nothing(
    broker: Any, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(Observer):
        def sending(self, sending: Sending) -> Any:
            raise RuntimeError(sending.queue)

        @contextmanager
        def handling(self, delivery: Any) -> Generator[None]:
            yield
            raise RuntimeError(delivery.id)

        def settled(self, settled: Settled) -> None:
            raise RuntimeError(settled.id)

    broker.observe(Broken())
    recorder = observed(broker, trace="t")
    queue = broker.queue("orders")
    await queue.send("body", id="m")
    async with await one(queue) as delivery:
        assert delivery.headers == {"trace": "t"}
    assert recorder.seen[-3:] == ["handle m:", "handle m.", "m acked"]
    assert [record.levelno for record in caplog.records] == [logging.ERROR] * 3
    assert [record.exc_info is not None for record in caplog.records] == [True] * 3


async def test_deliveries_are_not_kept(broker: Any) -> None:
    broker.observe(Observer())
    queue = broker.queue("orders")
    await queue.send("body")
    delivery = await one(queue)
    async with delivery:
        pass
    gone = weakref.ref(getattr(delivery, "inner", delivery))
    del delivery
    gc.collect()
    assert gone() is None


def test_an_observer_is_one_by_its_class() -> None:
    broker = rq_dlq.Broker("redis://nowhere")
    recorder = Recorder()
    assert broker.observe(recorder) is recorder
    with pytest.raises(ConfigurationError, match="pass an instance of a subclass of Observer"):
        broker.observe(print)  # type: ignore[type-var]
