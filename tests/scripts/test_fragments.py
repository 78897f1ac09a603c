"""Fragments of scripts by themselves, with all that they ask for given."""

from __future__ import annotations

from typing import Any

import pytest

from rq_dlq._scripts import Scripts

SCRIPTS = Scripts(
    {
        "ask": """\
local seconds, microseconds = ARGV[1], ARGV[2]
local redis = { call = function(command) return command == 'TIME' and { seconds, microseconds } end }
-- needs: now
return string.format('%.17g', now)
"""
    }
)


@pytest.mark.parametrize(
    ("time", "milliseconds"),
    [
        (("1790000000", "0"), "1790000000000"),
        (("1790000000", "999"), "1790000000000"),
        (("1790000000", "1000"), "1790000000001"),
        (("1790000001", "999000"), "1790000001999"),
        (("1790000001", "999999"), "1790000001999"),
    ],
)
def test_the_server_s_time_in_whole_milliseconds(raw: Any, time: tuple[str, str], milliseconds: str) -> None:
    assert raw.eval(SCRIPTS["ask"].source, 0, *time) == milliseconds.encode()
