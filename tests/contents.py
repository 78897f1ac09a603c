"""Everything that a server holds: to compare before and after."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.servers.clusters import PlainClient

READERS: dict[bytes, Callable[[Any, bytes], Any]] = {
    b"string": lambda raw, key: raw.get(key),
    b"hash": lambda raw, key: raw.hgetall(key),
    b"set": lambda raw, key: raw.smembers(key),
    b"zset": lambda raw, key: raw.zrange(key, 0, -1, withscores=True),
    b"list": lambda raw, key: raw.lrange(key, 0, -1),
    b"stream": lambda raw, key: raw.xrange(key),
}


def contents(raw: Any) -> dict[bytes, Any]:
    """Each key's value, of all nodes; of a stream without the times at which Redis noted it."""
    nodes = raw.all() if isinstance(raw, PlainClient) else [raw]
    return {key: value for node in nodes for key, value in _of(node).items()}


def _of(node: Any) -> dict[bytes, Any]:
    keys, pipeline = sorted(node.keys()), node.pipeline(transaction=False)
    for key in keys:
        pipeline.type(key)
    kinds = pipeline.execute()
    for key, kind in zip(keys, kinds, strict=True):
        READERS[kind](pipeline, key)
    found = zip(keys, kinds, pipeline.execute(), strict=True)
    return {
        key: [fields for _, fields in value] if kind == b"stream" else value for key, kind, value in found
    }
