"""K4: where keys do not count, a claim and an ack ask of Redis what they asked before there were keys."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rq_dlq._scripts import Verb
from rq_dlq.core.settling import calls as settling_calls
from tests.conftest import MOVED_CLOCK, Clock
from tests.model.driver import Driver

SHIM = """\
local redis = (function(redis)
  return {
    call = function(...)
      redis.call('RPUSH', 'asked', (select(1, ...)))
      return redis.call(...)
    end,
    pcall = redis.pcall,
  }
end)(redis)
"""
SEND = "GET GET HMGET HMGET HSET ZADD HSET HINCRBY LLEN LPUSH PEXPIRE PSETEX"
CLAIM = "GET HGET EXISTS HMGET ZRANGE HMGET HMGET ZADD HSET HSET ZREM DEL"
LIMITED = CLAIM.replace("HMGET ZRANGE", "HMGET HLEN ZCARD ZCARD ZCARD ZCARD ZRANGE", 1)
ACK = "HMGET HMGET HDEL HDEL HDEL HINCRBY HINCRBY HDEL ZREM"


class Telling:
    """The verbs as scripts, which write down the commands that they call."""

    def __getitem__(self, name: str) -> Verb:
        verb = MOVED_CLOCK.as_form("bare")[name]
        return replace(verb, source=SHIM + verb.source)


def asked(raw: Any, driver: Driver, call: Any) -> str:
    """The commands of a call. A moved clock reads a key in place of TIME."""
    raw.delete("asked")
    Driver(raw, driver.policy, Telling()).run(call)  # type: ignore[arg-type]
    return " ".join(name.decode() for name in raw.lrange("asked", 0, -1))


@pytest.mark.parametrize("backend", ["real"], indirect=True)
def test_who_does_not_use_keys_pays_nothing(raw: Any) -> None:
    Clock(raw)
    driver = Driver(raw)
    driver.run(driver.configure_call())
    said = asked(raw, driver, driver.send_call(("m1", 4), ("m2", 4)))
    assert said == SEND, said
    said = asked(raw, driver, driver.claim_call("T", 9))
    assert said == CLAIM, said
    said = asked(raw, driver, settling_calls.ack(driver.keys, [("m1", "T"), ("m2", "T")]))
    assert said == ACK, said


@pytest.mark.parametrize("backend", ["real"], indirect=True)
def test_a_limit_looks_for_cancelled_calls_only_after_a_cancel(raw: Any) -> None:
    Clock(raw)
    driver = Driver(raw)
    driver.run(driver.configure_call({"max_in_flight": "9"}))
    driver.run(driver.send_call(("m1", 4), ("m2", 4)))
    said = asked(raw, driver, driver.claim_call("T", 9))
    assert said == LIMITED, said


@pytest.mark.parametrize("backend", ["real"], indirect=True)
def test_a_send_looks_for_ends_only_while_some_are_kept(raw: Any) -> None:
    Clock(raw)
    driver = Driver(raw)
    driver.run(driver.configure_call({"results": "60000"}))
    driver.run(driver.send_call(("m1", 4)))
    assert not raw.hexists(driver.keys["settings"], "kept")
    driver.run(driver.claim_call("T", 9))
    driver.run(settling_calls.ack(driver.keys, [("m1", "T")]))
    assert raw.hexists(driver.keys["settings"], "kept")
    known = driver.run(driver.send_call(("m1", 4)))
    assert known is not None
    assert known.known[0].known == "acked"
    raw.delete(driver.keys["results"], driver.keys["result_times"])  # as they go by themselves
    driver.run(driver.configure_call({"results": ""}))
    assert driver.run(driver.send_call(("m1", 4))) != known
    said = asked(raw, driver, driver.send_call(("m2", 4)))
    assert said.split().count("HMGET") == 2, said
