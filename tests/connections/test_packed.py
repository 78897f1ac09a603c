"""Commands as bytes for the wire."""

from __future__ import annotations

from typing import Any

import hiredis

from rq_dlq._keys import QueueKeys
from rq_dlq._redis.exchange import packed
from rq_dlq._scripts import Joined
from rq_dlq.core.steps.call import Call
from tests.tables import each_row

SAME, MIXED = [b"%020d" % n for n in range(300)], [b"1", b"22", b""]


@each_row("fields", [SAME, SAME[:1], [b""], [b"\r\n"] * 2, MIXED, ["one", "two"], [b"one", "two"]])
def test_ids_of_one_length_are_packed_as_others_are(fields: list[Any]) -> None:
    command: Any = (b"HMGET", "rq:{a}:messages", *fields)
    assert packed(command) == packed(command) == hiredis.pack_command(command)


@each_row("items", [(), ("id", b"token"), (1, 0.5, b"\r\n" * 9)])
def test_the_keys_of_a_script_are_packed_once_as_they_are_each_time(items: tuple[Any, ...]) -> None:
    keys, others, verbs = QueueKeys("rq", "a"), QueueKeys("rq", "b"), Joined()
    for of in (keys, others, keys):
        command = Call("ack", of, {"given": 0}, items, list).command(verbs)
        assert packed(command) == packed(command) == hiredis.pack_command(command)
