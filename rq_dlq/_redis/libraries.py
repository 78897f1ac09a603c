"""The libraries on a server: this version's, which is loaded, and those of others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from rq_dlq.core.steps.call import Command, read_hash
from rq_dlq.errors import BrokerRefused

if TYPE_CHECKING:
    from rq_dlq._scripts.verb import Library
    from rq_dlq.core.steps.step import Steps

OURS = b"rq_*"


def load(library: Library) -> Steps[bool]:
    """Load the library; False: it was there.

    Raises:
        BrokerRefused: the server has no functions, or accepts none now.
        MissingRights: the user may not load a library.
    """
    if library.name in (yield from libraries()):
        return False
    try:
        yield Command((b"FUNCTION", b"LOAD", library.source))
    except BrokerRefused as error:
        if "already exists" not in str(error):
            raise
        return False  # another process was faster
    return True


def libraries() -> Steps[dict[str, int]]:
    """The libraries of all versions by name, each with the size of its text, bytes.

    Raises:
        BrokerRefused: the server has no functions, or the user may not list them.
    """
    return (yield Command((b"FUNCTION", b"LIST", b"LIBRARYNAME", OURS, b"WITHCODE"), _read))  # type: ignore[no-any-return]


def delete(name: str) -> Steps[None]:
    """Delete a library; a process that uses it loads it again, if it may."""
    yield Command((b"FUNCTION", b"DELETE", name))


def _read(reply: Any) -> dict[str, int]:
    found = map(read_hash, cast("list[Any]", reply))
    return {one[b"library_name"].decode(): len(one[b"library_code"]) for one in found}
