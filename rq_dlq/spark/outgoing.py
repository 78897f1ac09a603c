"""Turns rows into messages of a queue."""

from __future__ import annotations

import re
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from rq_dlq.errors import InvalidInput, InvalidMessage
from rq_dlq.spark.options import BYTES, JSON, WriteOptions
from rq_dlq.values.codec import DEFAULT_PRIORITY, NO_HEADERS, NO_JSON, Codec, Ids
from rq_dlq.values.durations import milliseconds
from rq_dlq.values.names import check_id

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from rq_dlq.core.steps.call import Argument

# The types that a column may have, as a pattern of SQL's names, and what an error says of them.
TEXT = ("string.*", "string")  # of any collation
_WHOLE = ("(tiny|small|big)?int", "a whole number")
SPANS = (
    rf"{_WHOLE[0]}|float|double|decimal\(.*\)|string.*|interval (?!year|month).*",
    "a number of seconds, a duration as text or an interval",
)
_JSON_TEXT = msgspec.json.Decoder(msgspec.Raw)  # checks the grammar; not UTF-8, nor the size of numbers
_JSON = msgspec.json.Decoder()
_LONG = r"[0-9][eE]\+?[0-9]{3}|[0-9]{200}"  # every number that is too large for a float has one of these
T = TypeVar("T")
Times = tuple[int, int]


def check_columns(schema: StructType, options: WriteOptions) -> None:
    """Raise InvalidInput if a column is missing, has a type that cannot be sent, or would not be sent."""
    kinds = {
        "body": ("binary|string.*", "binary or string"),
        options.id_column: TEXT,
        options.key_column: TEXT,
        options.priority_column: _WHOLE,
        options.headers_column: ("map<string,string>", "map<string,string>"),
        options.delay_column: SPANS,
        options.ttl_column: SPANS,
    }
    check_types(schema, kinds)
    if unsent := [name for name in schema.fieldNames() if not name or name not in kinds]:
        raise InvalidInput(
            f"column {', '.join(map(repr, unsent))} would not be sent: select() the others, put it into "
            "the body (to_json(struct(…))), or name it in an option such as idColumn"
        )
    if options.content_type == BYTES and schema["body"].dataType.simpleString() != "binary":
        message = "the body is a string, but contentType is bytes: cast it to binary, or omit contentType"
        raise InvalidInput(message)


def check_types(schema: StructType, kinds: Mapping[str, tuple[str, str]]) -> None:
    """Raise InvalidInput unless these columns exist and have one of their types; an empty name is of none."""
    there = {field.name: field.dataType.simpleString() for field in schema}
    for name in filter(None, kinds):
        pattern, wanted = kinds[name]
        if name not in there:
            raise InvalidInput(f"there is no column {name!r}: there are {', '.join(there) or 'none'}")
        if not re.fullmatch(pattern, there[name]):
            raise InvalidInput(f"column {name!r} is {there[name]}, not {wanted}: cast it")


@dataclass
class RowConverter:
    """Turns rows into messages.

    Args:
        ids: draws ids for rows without one.
        shards: the number of queues. Rows with a key are spread by that, so that one queue has all of it;
            others with an id column by their id, so that the queue recognises a repeated id; the rest in
            turn, and each task begins with another queue.
    """

    options: WriteOptions
    codec: Codec[Any]
    ids: Ids
    shards: int

    def groups(self, batch: pa.RecordBatch, turn: int) -> Iterator[tuple[int, Times, list[Argument]]]:
        """The items (id, payload, …) by shard, and by delay and time to live (milliseconds)."""
        if not batch.num_rows:
            return
        options, ids, payloads = self.options, self._ids(batch), self._payloads(batch)
        if self.shards == 1 and not (options.delay_column or options.ttl_column):
            items: list[Any] = [None] * (2 * len(payloads))
            items[::2], items[1::2] = ids, payloads
            yield 0, (0, 0), items
            return
        delays = spans(cells(batch, options.delay_column), "delay", 0, 0)
        ttls = spans(cells(batch, options.ttl_column), "ttl", 1, 0)
        keys = cells(batch, options.key_column)
        grouped: defaultdict[tuple[int, Times], list[Argument]] = defaultdict(list)
        for n, name in enumerate(ids):
            text = name if keys[n] is None and options.id_column else keys[n]
            shard = (turn + n if text is None else zlib.crc32(text.encode())) % self.shards
            grouped[shard, (delays[n], ttls[n])] += (name, payloads[n])
        for (shard, pair), items in grouped.items():
            yield shard, pair, items

    def _ids(self, batch: pa.RecordBatch) -> list[str]:
        drawn = self.ids.drawn()
        if not self.options.id_column:
            return [*islice(drawn, batch.num_rows)]
        ids: list[str | None] = cells(batch, self.options.id_column)
        for name in ids:
            if name is not None:
                check_id(name)
        return [next(drawn) if name is None else name for name in ids]

    def _payloads(self, batch: pa.RecordBatch) -> list[bytes]:
        options, pack, bodies = self.options, self.codec.packer, self._bodies(batch)
        names = (options.priority_column, options.headers_column, options.key_column)
        if not any(names):
            return [*map(pack(DEFAULT_PRIORITY, NO_HEADERS), bodies)]
        columns = (cells(batch, name) for name in names)
        return [
            pack(DEFAULT_PRIORITY if priority is None else priority, dict(pairs or ()), key=key)(body)
            for body, priority, pairs, key in zip(bodies, *columns, strict=True)
        ]

    def _bodies(self, batch: pa.RecordBatch) -> list[Any]:
        """The bodies for the codec: bytes, text, or an unchanged JSON document."""
        column = batch.column("body")
        if column.null_count:
            message = "a body is null: every message needs one. Filter out such rows, or use coalesce()"
            raise InvalidMessage(message)
        bodies = cells(batch, "body")
        if self.options.content_type != JSON:
            return bodies
        try:
            column.cast(pa.string())  # is it UTF-8?
            documents = [_JSON_TEXT.decode(body) for body in bodies]
            huge = pc.call_function("match_substring_regex", [column], pc.MatchSubstringOptions(_LONG))
            for place in pc.call_function("indices_nonzero", [huge]).to_pylist():
                _JSON.decode(bodies[place])
        except NO_JSON as error:  # Arrow's error is also a ValueError
            message = f"a body is not a JSON document, although contentType is JSON: {error}. Use to_json()"
            raise InvalidMessage(message) from None
        return documents


def cells(batch: pa.RecordBatch, name: str) -> list[Any]:
    """The values of a column; nulls, if the name is empty.

    Raises:
        InvalidInput: a string is not UTF-8, which Spark does not check.
    """
    if not name:
        return [None] * batch.num_rows
    try:
        return batch.column(name).to_pylist()  # type: ignore[no-any-return]
    except UnicodeDecodeError as error:
        message = f"column {name!r} has a string that is not UTF-8 ({error}): use binary, or filter such rows"
        raise InvalidInput(message) from None


def spans(values: Sequence[Any], name: str, minimum: int, none: T) -> list[int | T]:
    """Durations in milliseconds; null is `none`."""
    known: dict[Any, int | T] = {None: none}
    for value in values:
        if value not in known:
            span = float(value) if isinstance(value, Decimal) else value  # SQL's 1.5 is a decimal
            known[value] = milliseconds(span, name=name, minimum=minimum)
    return [known[value] for value in values]
