"""The lists of names that all programs of a namespace read, and how they are put back from the queues."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rq_dlq import _keys
from rq_dlq._keys import QueueKeys
from rq_dlq.core.queues import calls
from rq_dlq.core.steps.call import Argument, Command
from rq_dlq.doctor.check import Check
from rq_dlq.errors import BrokerRefused

if TYPE_CHECKING:
    from rq_dlq._redis import Connections
    from rq_dlq.client.settings import BrokerSettings
    from rq_dlq.core.steps.step import Steps

LISTS = (_keys.queues, _keys.aliases)
PAGE = 1000  # keys that a server looks at in one command


def names(settings: BrokerSettings) -> Steps[Check]:
    """Whether the lists of queues and aliases are lists; else no program of the namespace opens a queue."""
    wrong = yield from _wrong(settings.namespace)
    if not wrong:
        return Check("names", "ok", "the lists of queues and of aliases can be read")
    advice = "`rq-dlq doctor --repair`, as an operator, makes them anew from the queues that are there"
    found = f"{' and '.join(wrong)} hold something else, so no program can open a queue"
    return Check("names", "fail", found, advice)


def repair(connections: Connections, settings: BrokerSettings) -> Check | None:
    """Make such a list anew from the settings of the queues; None: they are well.

    Raises:
        MissingRights: the user may not do that; only an operator may.
    """
    namespace = settings.namespace
    wrong = connections.run(_wrong(namespace))
    if not wrong:
        return None
    found = [name for names in connections.everywhere(lambda: _queues(namespace)).values() for name in names]
    for key in wrong:
        connections.run(_remove(key))
    for name in found:
        connections.run(_listed(QueueKeys(namespace, name)))
    return Check("names", "ok", f"{' and '.join(wrong)} were made anew from {len(found)} queues")


def _wrong(namespace: str) -> Steps[list[str]]:
    """The keys of those that are no lists of names."""
    wrong: list[str] = []
    for key in (of(namespace) for of in LISTS):
        try:
            yield Command((b"SMEMBERS", key))
        except BrokerRefused as error:
            if "WRONGTYPE" not in str(error):
                raise
            wrong.append(key)
    return wrong


def _queues(namespace: str) -> Steps[list[str]]:
    """The names of the queues of which a server has the settings."""
    before, behind = f"{namespace}:", ":settings"
    found: set[str] = set()
    cursor = b"0"
    while True:
        parts: tuple[Argument, ...] = (b"SCAN", cursor, b"MATCH", f"{before}{{*{behind}", b"COUNT", PAGE)
        cursor, keys = yield Command(parts)
        for key in keys:
            name = key.decode(errors="replace").removeprefix(before).removesuffix(behind)
            found.add(name[1:-1] if name.endswith("}") else name)
        if cursor == b"0":
            return sorted(found)


def _remove(key: str) -> Steps[None]:
    yield Command((b"DEL", key))


def _listed(keys: QueueKeys) -> Steps[None]:
    """List an open queue, and the names that it gives to its dead-letter and expiry queues."""
    if (yield calls.opening(keys)):
        yield calls.register(keys)
    if given := [name for names in (yield calls.given_names(keys)) for name in names.split(" ") if name]:
        yield calls.add_aliases(keys.namespace, given)
