"""Keys and dependencies that 0.1.0 wrote, whose lanes have other numbers; and how it is kept out."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import pytest
import redis

import rq_dlq
from rq_dlq import BrokerRefused, Message, PerKey
from rq_dlq.core.keyed import calls as keyed_calls
from rq_dlq.doctor import queues
from tests.format.test_released import needs_release, process, released

__all__ = ["released"]
FILLS = """
import sys, rq_dlq
from rq_dlq import Message, PerKey
url, declared, keys = sys.argv[1:]
broker = rq_dlq.Broker(url)
queue = broker.queue("a", lease="2s", **eval(declared))
bank = "bank" if "breaker" in declared else None
queue.send_many([Message(n, id=f"{key}{n}", key=key, dependency=bank) for n in range(3) for key in keys])
held = queue.claim(len(keys))
print(*[delivery.id for delivery in held], flush=True)
for line in sys.stdin:
    try:
        exec(line)
    except Exception as error:
        print(type(error).__name__, error, flush=True)
    else:
        print("done", flush=True)
"""


ORDERED = "dict(per_key=PerKey(order=True))"
LIMITED = "dict(per_key=PerKey(limit=1), breaker=rq_dlq.Breaker())"


class Old:
    """A process of 0.1.0: it sends three messages of each key, claims the first of each, and obeys."""

    def __init__(self, files: Path, url: str, keys: str, declared: str = ORDERED) -> None:
        self._process = process(files, FILLS, url, declared, keys)
        self.held = self._line().split()

    def _line(self) -> str:
        assert self._process.stdout
        return self._process.stdout.readline().strip()

    def does(self, line: str) -> str:
        """Make it do something: "done", or the error."""
        assert self._process.stdin
        print(line, file=self._process.stdin, flush=True)
        return self._line()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.communicate(timeout=60)


def order_of(queue: Any, *, until_empty: bool = False) -> list[str]:
    """Claim and ack until nothing is ready, or nothing is left; no two of a key are held at once."""
    done = list[str]()
    while (held := queue.claim(20)) or (until_empty and (held := queue.claim(20, wait="5s"))):
        keys = [delivery.key for delivery in held]
        assert len(keys) == len({*keys}), held
        for delivery in held:
            delivery.ack()
            done.append(delivery.id)
    return done


@needs_release
def test_their_order_goes_on(released: Path, empty_socket: str) -> None:
    """What 0.1.0 has in work holds its keys; what is sent now comes behind what waits; nothing is lost."""
    url = f"unix://{empty_socket}"
    with Old(released, url, "kl") as old, rq_dlq.Broker(url) as broker:
        assert sorted(old.held) == ["k0", "l0"]
        queue = broker.queue("a", per_key=PerKey(order=True))
        queue.send_many([Message(n, id=f"{key}{n}", key=key) for n in (3, 4) for key in "klm"])
        stats = queue.key("k").stats()
        assert (stats.blocked, stats.held_by[0][0]) == (4, "k0")
        assert order_of(queue) == ["m3", "m4"]
        assert "WRONGTYPE" in old.does("[delivery.ack() for delivery in held]")  # then their leases end
        done = order_of(queue, until_empty=True)
        for key in "kl":
            assert [one for one in done if one[0] == key] in (
                [f"{key}{n}" for n in range(5)], [f"{key}{n}" for n in range(1, 5)],
            )  # fmt: skip
        assert not queue.stats().waiting


@needs_release
def test_programs_of_0_1_0_are_kept_out(released: Path, empty_socket: str) -> None:
    """Whether they run or start, and declare the rule or not; none of them sends, or takes anything."""
    url = f"unix://{empty_socket}"
    with Old(released, url, "k") as old, rq_dlq.Broker(url) as broker:
        check = broker._run(queues.former(broker.settings))
        assert (check.state, check.found) == ("warn", f"a: {queues.NUMBERED_BEFORE}")
        queue = broker.queue("a", per_key=PerKey(order=True))
        queue.open()
        assert broker._run(queues.former(broker.settings)).state == "ok"
        sent = queue.stats().totals["sent"]
        assert old.does("rq_dlq.Broker(url).queue('a').send('x', key='k')").startswith("UpgradeRequired")
        assert old.does("rq_dlq.Broker(url).queue('a').claim(1)").startswith("UpgradeRequired")
        for opened in (
            "queue",
            "rq_dlq.Broker(url).queue('a', per_key=PerKey(order=True))",
            "rq_dlq.Broker(url).queue('a', per_key=PerKey(limit=2, rate='9/s'))",
            "rq_dlq.Broker(url).queue('a', per_key=PerKey(fair=True))",
        ):
            for call in ("send('x', key='k')", "send('x', key='z')"):
                assert "WRONGTYPE" in old.does(f"{opened}.{call}"), (opened, call)
            taken = old.does(f"assert not {opened}.claim(1)")
            assert taken == "done" or "WRONGTYPE" in taken, (opened, taken)
        assert queue.stats().totals["sent"] == sent
        queue.send("x", id="k9", key="k")
        assert order_of(queue, until_empty=True)[-1] == "k9"


@needs_release
def test_its_operators_set_nothing_that_does_not_count(released: Path, empty_socket: str) -> None:
    """And its workers take nothing; while lanes are renumbered, and afterwards."""
    url = f"unix://{empty_socket}"
    with Old(released, url, "kl", LIMITED) as old, rq_dlq.Broker(url) as broker:
        queue = broker.queue("a", per_key=PerKey(limit=1), breaker=rq_dlq.Breaker())
        broker._run(broker._step(keyed_calls.renumber(queue._core.keys, b"", limit=1)))
        for _ in range(2):
            for line in (
                "key('k').pause()",
                "key('k').limit(3)",
                "dependency('bank').pause()",
                "send('x', id='z0', key='z') and queue.claim(9)",
            ):
                assert "WRONGTYPE" in old.does(f"queue.{line}"), line
            queue.open()
        assert (queue.key("k").stats().paused, queue.key("k").stats().limit) == (False, None)
        assert not queue.dependency("bank").stats().paused


@needs_release
def test_a_call_of_which_nothing_tells_the_key_is_waited_for(released: Path, empty_socket: str) -> None:
    """Its message was cancelled, and no other has the key; until its lease has ended."""
    url = f"unix://{empty_socket}"
    with Old(released, url, "k") as old, rq_dlq.Broker(url) as broker:
        assert old.does("[delivery.extend('1m') for delivery in held]") == "done"
        assert old.does("[queue.cancel(id) for id in ('k0', 'k1', 'k2')]") == "done"
        queue = broker.queue("a", per_key=PerKey(order=True))
        with pytest.raises(
            BrokerRefused, match=r"a program of 0\.1\.0 run on, although their messages were cancelled"
        ):
            queue.open()
        with redis.Redis(unix_socket_path=empty_socket) as raw:
            (token,) = raw.zrange("rq:{a}:leases", 0, -1)
            raw.zadd("rq:{a}:leases", {token: 1})  # the minute is over
        queue.open()
        queue.send("x", id="k3", key="k")
        assert order_of(queue) == ["k3"]


@needs_release
def test_what_is_special_stays(released: Path, empty_socket: str) -> None:
    """Pauses, and a limit of a key; what waits behind a dependency comes when it is resumed."""
    url = f"unix://{empty_socket}"
    with (
        Old(released, url, "kl", LIMITED) as old,
        rq_dlq.Broker(url) as broker,
    ):
        for line in (
            "[delivery.ack() for delivery in held]",
            "queue.dependency('bank').pause()",
            "queue.key('l').pause()",
            "queue.key('k').limit(3)",
            "queue.claim(9)",
        ):
            assert old.does(line) == "done", line
        queue = broker.queue("a", per_key=PerKey(limit=1), breaker=rq_dlq.Breaker())
        assert queue.claim(9) == []
        assert (queue.key("l").stats().paused, queue.key("k").stats().limit) == (True, 3)
        bank = queue.dependency("bank").stats()
        assert bank.paused
        assert bank.waiting > 1
        queue.dependency("bank").resume()
        queue.key("l").resume()
        done = list[str]()
        while queue.stats().waiting:
            for delivery in queue.claim(9):
                delivery.ack()
                done.append(delivery.id)
        assert sorted(done) == ["k1", "k2", "l1", "l2"]


@needs_release
def test_a_rule_over_messages_of_both(released: Path, empty_socket: str) -> None:
    """0.1.0 works beside this version until keys get a rule; then one key is one lane, whoever sent."""
    url = f"unix://{empty_socket}"
    with Old(released, url, "kl", "{}") as old, rq_dlq.Broker(url) as broker:
        queue = broker.queue("a")
        queue.send_many([Message(n, id=f"k{n}", key="k") for n in (3, 4)])
        assert old.does("queue.send('x', id='k5', key='k')") == "done"
        assert old.does("[delivery.ack() for delivery in held]") == "done"
        broker.policies.set("a", per_key="order")
        assert old.does("queue.send('y', id='k6', key='k')").startswith("UpgradeRequired")
        done = order_of(queue, until_empty=True)
        assert [one for one in done if one[0] == "k"] == ["k1", "k2", "k3", "k4", "k5"]


@needs_release
def test_a_pause_holds_for_programs_of_0_1_0(released: Path, empty_socket: str) -> None:
    """Without a rule for keys there are no seats; they get errors where a dependency counts."""
    url = f"unix://{empty_socket}"
    with Old(released, url, "k", "dict(breaker=rq_dlq.Breaker())") as old, rq_dlq.Broker(url) as broker:
        queue = broker.queue("a", breaker=rq_dlq.Breaker())
        queue.dependency("bank").pause()
        old.does("queue.send('x', dependency='bank')")
        assert "WRONGTYPE" in old.does("assert not queue.claim(9)")
        check = broker._run(queues.former(broker.settings))
        assert (check.state, check.found) == ("warn", f"a: {queues.DECLARED_BEFORE}")
