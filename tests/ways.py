"""Which two of its four ways a test runs by default: a broker of either colour, on either kind of server."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

COLOURS, SERVERS = ("sync", "async"), ("fake", "real")


def is_left_out(item: pytest.Item) -> bool:
    """Whether this is one of the other two, which `make slow` runs."""
    params = getattr(getattr(item, "callspec", None), "params", {})
    colour, server = params.get("broker"), params.get("backend")
    test, _, _ = item.nodeid.partition("[")
    return colour in COLOURS and server in SERVERS and not is_chosen(test, colour, server)


def is_chosen(test: str, colour: str, server: str) -> bool:
    """Whether a test runs this way by default.

    It meets both colours and both servers; each colour meets each server in half of the tests.
    """
    crossed = zlib.crc32(test.encode()) % 2 == 1
    return ((colour == "async") == (server == "real")) == crossed
