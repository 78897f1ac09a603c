"""What a row of the table says, and how a test shows that it leaves out no verb."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal

import redis

from rq_dlq._scripts import Joined
from rq_dlq._scripts.verb import PAIRS
from rq_dlq.core.steps.call import Call

if TYPE_CHECKING:
    from tests.model.world import World
    from tests.verbs.scene import Scene

Kind = Literal["send", "claim", "settle", "session", "batch", "job", "upkeep", "operate", "configure", "look"]
Role = Literal["producer", "consumer", "maintenance", "read-only"]


class Again(Enum):
    """What comes of a call that is repeated (I12)."""

    SAME = "nothing changes, and the reply is the same"
    DONE = "nothing changes, and the reply says that it is done"
    NOTHING_LEFT = "nothing changes, and the reply says that nothing was left to do"
    GOES_ON = "it does the next ones: a bounded step of upkeep, which is done until nothing is left"


@dataclass(frozen=True, kw_only=True, slots=True)
class Verb:
    """A script, and what every test of all scripts has to know of it.

    Attributes:
        name: of the Lua file.
        kind: what it is for; where one of a kind stands for all, a test reads this.
        roles: who may run it.
        call: a valid call, in the world of the model. It may first do what the call needs.
        say: the same as a client does it, in a scene, of either colour.
        cut_off: the messages of the world that may be gone, or new, where the call was cut off; those of
            the other queue begin with "to/".
        again: what comes of a repetition.
        drains: it says of itself that it may run when the server's memory is full.
        refused: a full server refuses it, since it adds something before it removes anything.
        selects: the method of a selection that says it; empty: there is none.
    """

    name: str
    kind: Kind
    roles: frozenset[Role]
    call: Callable[[World], Call[Any]]
    say: Callable[[Scene], Awaitable[object]]
    again: Again
    cut_off: frozenset[str] = frozenset()
    drains: bool = False
    refused: bool = False
    selects: str = ""


def table(*rows: Verb) -> dict[str, Verb]:
    """The rows by their names.

    Raises:
        LookupError: they are not exactly the Lua files: no test of all verbs may run then.
    """
    found, files = {row.name: row for row in rows}, set(Joined().names())
    if len(found) < len(rows) or found.keys() != files:
        message = (
            f"tests/verbs/table.py: no row for {sorted(files - found.keys())}, "
            f"no Lua file for {sorted(found.keys() - files)}, or a row twice"
        )
        raise LookupError(message)
    return found


def names(verbs: Mapping[str, Verb], *kinds: Kind) -> set[str]:
    """The verbs of these kinds."""
    return {name for name, verb in verbs.items() if verb.kind in kinds}


def check_all_tried(verbs: Iterable[str], tried: Iterable[str], without: Mapping[str, str]) -> None:
    """Each verb is tried, or left out for a reason. A call of two verbs is, if both are.

    Args:
        without: why a verb is left out, by its name.

    Raises:
        AssertionError: one is neither or both, or there is no such verb.
    """
    there, found = set(verbs), set(tried)
    found |= {both for both, pair in PAIRS.items() if found.issuperset(pair)} & there
    assert found <= there, f"no such verb: {sorted(found - there)}"
    assert not (both := found & without.keys()), f"tried, and left out: {sorted(both)}"
    assert not (silent := there - found - without.keys()), f"left out without a reason: {sorted(silent)}"
    assert without.keys() <= there, f"no such verb: {sorted(without.keys() - there)}"
    assert all(without.values()), "a verb is left out for an empty reason"


@contextmanager
def ran_on(*clients: redis.Redis) -> Iterator[set[str]]:
    """The verbs that these servers run meanwhile; the set is filled at the end."""
    ran = set[str]()
    watching = [client.connection_pool.get_connection() for client in clients]
    for connection in watching:
        connection.send_command("MONITOR")
        connection.read_response()
    yield ran
    for client, connection in zip(clients, watching, strict=True):
        client.echo(_END)
        while _END not in (said := str(connection.read_response())):
            ran.update(name for found in _RAN.findall(said) for name in found if name)
        connection.disconnect()
        client.connection_pool.release(connection)


_END = "the end of MONITOR"
# A verb is the name of a function, or the last argument of the script.
_RAN = re.compile(r'"FCALL(?:_RO)?" "rq_[0-9a-f]{12}_(\w+)"|"EVALSHA(?:_RO)?" .*"(\w+)"\W*$')
