"""Which two of its four ways a test runs by default: a broker of either colour, on either kind of server."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

COLOURS, SERVERS = ("sync", "async"), ("fake", "real")


def is_left_out(item: pytest.Item) -> bool:
    """Whether this is one of the other two, which `make slow` runs.

    Each test meets both colours and both servers, and each colour meets each server in half of the tests.
    """
    params = getattr(getattr(item, "callspec", None), "params", {})
    colour, server = params.get("broker"), params.get("backend")
    if colour not in COLOURS or server not in SERVERS:
        return False
    test, _, _ = item.nodeid.partition("[")
    return (colour == "async") ^ (server == "real") ^ bool(zlib.crc32(test.encode()) % 2)
