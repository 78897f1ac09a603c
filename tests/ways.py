"""Which three of its four ways a test runs by default: a broker of either colour, on either kind of server.

On a real server it runs in both colours. fakeredis takes more than twice as long, and what it does otherwise
than Redis does not depend on the colour; so half of the tests meet it in one colour, half in the other.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

COLOURS, SERVERS = ("sync", "async"), ("fake", "real")


def is_left_out(item: pytest.Item) -> bool:
    """Whether this is the fourth way, which `make slow` runs."""
    params = getattr(getattr(item, "callspec", None), "params", {})
    colour, server = params.get("broker"), params.get("backend")
    test, _, _ = item.nodeid.partition("[")
    return colour in COLOURS and server in SERVERS and not is_chosen(test, colour, server)


def is_chosen(test: str, colour: str, server: str) -> bool:
    """Whether a test runs this way by default."""
    return server == "real" or colour == COLOURS[zlib.crc32(test.encode()) % 2]
