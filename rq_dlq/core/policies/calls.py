"""The map of policies, and the settings of a queue, in Redis."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from rq_dlq import _keys
from rq_dlq.core.steps.call import Argument, Call, Command, read_hash, whole
from rq_dlq.core.steps.replies import Word, one_of
from rq_dlq.policy.fields import WRITTEN

if TYPE_CHECKING:
    from rq_dlq._keys import QueueKeys

_WRITTEN: Final = one_of(Word.DONE, Word.OUTDATED, Word.OLD_LANES)


def configure(
    keys: QueueKeys,
    settings: Mapping[str, str],
    *,
    version: int,
    version_before: bytes = b"",
    declared_before: bytes,
    declared: bytes,
) -> Call[Word]:
    """Write the settings of a queue; fields that this version does not have stay as they are.

    Reads as DONE, or OUTDATED: the fields that `configured` read have changed in the meantime; or OLD_LANES:
    its lanes have the numbers of 0.1.0 (`core/keyed/renumber.py`).
    """
    args: dict[str, Argument] = {
        "version": version,
        "version_before": version_before,
        "declared_before": declared_before,
    }
    items: list[Argument] = ["declared", declared, "probing", "1" if settings.get("breaker") else ""]
    for name in WRITTEN:
        items += [name, settings.get(name, "")]
    return Call("configure", keys, args, items, _WRITTEN)


def set_policy(namespace: str, pattern: str, entry: bytes, seen: bytes | None = None) -> Call[bytes | None]:
    """Set an entry of the map of policies; empty: remove it. Reads as the one that was there before.

    Args:
        seen: the entry from which it was made; if another one is there now, nothing is written. None: it
            replaces any.
    """
    keys = _keys.NamedKeys({"policies": _keys.policies(namespace)})
    args: dict[str, Argument] = {"pattern": pattern, "entry": entry, "seen": b"any" if seen is None else seen}
    return Call("set_policy", keys, args, (), _read_replaced)


def policies(namespace: str) -> Command[dict[bytes, bytes]]:
    """The map of policies, as Redis stores it."""
    return Command((b"HGETALL", _keys.policies(namespace)), read_hash)


def policy_version(namespace: str) -> Command[bytes | None]:
    """How often the map of policies was changed, as text."""
    return Command((b"HGET", _keys.policies(namespace), b"#version"))


def configured(keys: QueueKeys) -> Command[tuple[bytes, bytes]]:
    """The declarations of the queue's own program, and the applied version of the map; empty: none."""
    command = (b"HMGET", keys["settings"], b"declared", b"version")
    return Command(command, lambda reply: (reply[0] or b"", reply[1] or b""))


def _read_replaced(reply: Any) -> bytes | None:
    return whole(reply, 2)[1]  # type: ignore[no-any-return]
