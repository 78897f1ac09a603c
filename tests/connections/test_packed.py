"""Commands as bytes for the wire."""

from __future__ import annotations

from typing import Any

import hiredis
import pytest

from rq_dlq._redis.exchange import packed

SAME, MIXED = [b"%020d" % n for n in range(300)], [b"1", b"22", b""]


@pytest.mark.parametrize(
    "fields", [SAME, SAME[:1], [b""], [b"\r\n"] * 2, MIXED, ["one", "two"], [b"one", "two"]]
)
def test_ids_of_one_length_are_packed_as_others_are(fields: list[Any]) -> None:
    command: Any = (b"HMGET", "rq:{a}:messages", *fields)
    assert packed([command, command]) == 2 * hiredis.pack_command(command)
