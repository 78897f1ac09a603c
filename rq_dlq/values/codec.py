"""Message ids, and bodies as bytes: the part of a record that the sender encodes."""

from __future__ import annotations

import math
import secrets
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import chain, product
from typing import Any, Generic, TypeVar

import msgspec

from rq_dlq.errors import InvalidMessage, MessageTooLarge, UnfitMessage, UnprocessableMessage
from rq_dlq.values import key as keys
from rq_dlq.values import models, record
from rq_dlq.values.forks import this_process
from rq_dlq.values.repeated import repeated_name

T = TypeVar("T")

PRIORITIES = range(10)
DEFAULT_PRIORITY = 4
NO_JSON = (ValueError, RecursionError)
"""The errors of msgspec for bytes that are not JSON: its own, a UTF-8 error, or nesting too deep."""
NO_HEADERS: Mapping[str, str] = {}
_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def check_priority(priority: object) -> None:
    """Raise InvalidMessage unless this is a priority."""
    if type(priority) is not int or priority not in PRIORITIES:
        raise InvalidMessage(f"priority {priority!r}: use a whole number from 0 (last) to 9 (first)")


class Ids:
    """Generates message ids: a random prefix per process, then a counter; at first twelve characters.

    The counter is made of iterators without Python code, so threads can share it without a lock.
    """

    def __init__(self) -> None:
        self._process = 0
        self._drawn: Iterator[str] = iter(())

    def drawn(self) -> Iterator[str]:
        """An iterator of ids for one call, which does not check the process for each id."""
        if self._process != this_process():  # a forked child must not repeat the ids of its parent
            prefix = "".join(secrets.choice(_DIGITS) for _ in range(9))
            tails = map("".join, chain.from_iterable([product(_DIGITS, repeat=n) for n in range(3, 10)]))
            self._drawn, self._process = map(prefix.__add__, tails), this_process()
        return self._drawn


class Encoded(msgspec.Struct, gc=False):
    """A body that a codec has encoded as JSON already, and checked."""

    data: bytes


class Codec(Generic[T]):
    """Encodes and decodes bodies with msgspec.

    Args:
        type: any type that msgspec supports, or a pydantic model. `bytes`: bodies are unchanged. Any: JSON
            values, and bytes.
        max_bytes: the largest size of an encoded message.

    Attributes:
        read: decodes JSON as the type; errors of the type's code are raised. None: the type is bytes.

    Raises:
        InvalidMessage: the type is not supported.
    """

    def __init__(self, type: Any, max_bytes: int) -> None:
        self.type = type
        self.max_bytes = max_bytes
        self._encoder = msgspec.json.Encoder(enc_hook=models.encode)
        self._raw = type is bytes
        self._known: set[Any] = set()  # classes whose bodies lose no data in JSON
        self._plain: dict[tuple[int, bool], Callable[[T], bytes]] = {}  # packers without headers
        self.read = None if self._raw else _reader(type)

    def packer(
        self,
        priority: int,
        headers: Mapping[str, str],
        *,
        persistent: bool = True,
        key: str | None = None,
        dependency: str | None = None,
        result: bool = False,
        encode: Callable[[Any], bytes] | None = None,
    ) -> Callable[[Any], bytes]:
        """A function that packs a body into a payload: flags, headers, body.

        Args:
            priority: 0 (last) to 9 (first).
            headers: a mapping of text to text.
            persistent: False: a message is dropped instead of dying, if the dead-letter strategy allows that.
            key, dependency: the key and the dependency; None: no key or dependency.
            result: the sender asks for the result.
            encode: makes JSON of a body, and has checked it; None: this codec does.

        Raises:
            InvalidMessage: the priority, the key, the dependency or a header is not valid. The function also
                raises it if a body cannot be encoded, or does not fit the type and could not be read.
            MessageTooLarge: the headers are too long. The function also raises it if a message is longer
                than `max_bytes`.
        """
        if priority is not DEFAULT_PRIORITY:
            check_priority(priority)
        if headers or key is not None or dependency is not None or result or encode:
            fields = record.pack_field(record.RESULT, b"") if result else b""
            block = _pack_headers(headers, key, dependency, fields)
            if encode is not None:
                return self._encoded_packer(encode, priority, block, persistent)
            return self._packer(priority, block, persistent)
        pack = self._plain.get((priority, persistent))
        if pack is None:
            pack = self._plain[priority, persistent] = self._packer(priority, b"", persistent)
        return pack

    def _packer(self, priority: int, packed: bytes, persistent: bool) -> Callable[[T], bytes]:  # noqa: FBT001
        as_json = record.pack_head(priority, packed, raw=False, persistent=persistent)
        as_bytes = record.pack_head(priority, packed, raw=True, persistent=persistent)
        taken = len(as_json) - 1  # by the headers
        room, encode, known, look = self.max_bytes - taken, self.json_of, self._known, self._look
        check = None if self._raw or self.type is Any else self._check

        def pack(body: Any) -> bytes:
            if isinstance(body, bytes):
                head, data = as_bytes, body
            elif type(body) in known:  # nearly always
                head, data = as_json, encode(body)
            elif type(body) is Encoded:
                head, data = as_json, body.data
            elif (copy := look(body)) is not None:
                head, data = as_bytes, copy
            else:
                head, data = as_json, encode(body)
            if len(data) > room:
                raise self._too_large(taken + len(data))
            if check is not None:
                check(data)
            return head + data

        return pack

    def _encoded_packer(
        self,
        encode: Callable[[Any], bytes],
        priority: int,
        packed: bytes,
        persistent: bool,  # noqa: FBT001
    ) -> Callable[[Any], bytes]:
        head = record.pack_head(priority, packed, raw=False, persistent=persistent)
        most = self.max_bytes + 1
        check = None if self._raw or self.type is Any else self._check

        def pack(body: Any) -> bytes:
            data = encode(body)
            if check is not None:
                check(data)
            whole = head + data
            if len(whole) > most:
                raise self._too_large(len(whole) - 1)
            return whole

        return pack

    def _too_large(self, size: int) -> MessageTooLarge:
        return MessageTooLarge(
            f"a message of {size:,} bytes is over the limit of {self.max_bytes:,}: send a reference to the "
            "data, or raise max_message_bytes"
        )

    def _check(self, data: bytes) -> None:
        """Check that an encoded body can be read as the type: an object may violate its annotations.

        Raises:
            InvalidMessage: it cannot.
        """
        try:
            self.decode(data, raw=False)
        except UnprocessableMessage as error:
            message = f"the body does not fit the queue's type {_type_name(self.type)}: {error.__cause__}"
            raise InvalidMessage(message) from None

    def encode(self, body: Any) -> bytes:
        """A body of any type as JSON.

        Raises:
            InvalidMessage: it cannot be encoded.
        """
        if type(body) not in self._known and (data := self._look(body)) is not None and type(body) is Encoded:
            return data
        return self.json_of(body)

    def _look(self, body: Any) -> bytes | None:
        """Check that JSON keeps all data of a body; most classes are checked only once.

        Returns:
            The bytes of a bytes-like body, or of an encoded one; None: the body is something else.

        Raises:
            InvalidMessage: a field would be lost.
        """
        if isinstance(body, bytearray | memoryview):
            return bytes(body)  # pyright: ignore[reportUnknownArgumentType]
        if isinstance(body, Encoded):
            return body.data
        if lost := models.lost_of(type(body)):
            raise InvalidMessage(lost)
        self._known.add(type(body))
        return None

    def json_of(self, body: Any, values: Any = None) -> bytes:
        """A body that is not bytes, as JSON; `encode` also looks at its class for fields that would be lost.

        Args:
            values: of a struct that was just made: what it was made of; None: it was not.

        Raises:
            InvalidMessage: it cannot be encoded.
        """
        if self._raw:
            raise InvalidMessage(f"the queue carries bytes, not {type(body).__name__}")
        try:
            data = self._encoder.encode(body)
            lost = _lost_number(body) if b"null" in data else None
            # If attrs was never imported, the body has no such fields.
            fields = models.lost_inside(body if values is None else values) if "attr" in sys.modules else ""
            name = repeated_name(body, data, self._encoder) if data.count(b'":') > 1 else None
        except Exception as error:  # msgspec calls hooks and properties of the body's type
            message = f"a body of type {type(body).__name__} cannot be encoded as JSON: {error}"
            raise InvalidMessage(message) from error
        if lost is not None:
            raise InvalidMessage(f"{lost}, a number that JSON cannot represent: send None or text instead")
        if fields:
            raise InvalidMessage(fields)
        if name is not None:
            raise InvalidMessage(
                f"in JSON two keys of a dict would both be {name}, and one would be lost: use other keys"
            )
        return data

    def decode(self, data: bytes, *, raw: bool) -> T:
        """The body of a record.

        Raises:
            UnfitMessage: it does not fit the queue's type, or is larger than `max_bytes`.
            UnprocessableMessage: it cannot be decoded.
        """
        if raw and (self._raw or self.type is Any):
            return data  # type: ignore[return-value]
        if self.read is None:
            raise UnfitMessage("the body was not sent as bytes, but the queue's type is bytes")
        if len(data) > self.max_bytes:
            raise UnfitMessage(
                f"a body of {len(data):,} bytes is over the limit of {self.max_bytes:,}: "
                "raise max_message_bytes for its consumers, too, and redrive it"
            )
        try:
            return self.read(data)  # type: ignore[no-any-return]
        except Exception as error:  # RecursionError, ValueError, UnicodeError, hooks …
            message = f"the body cannot be decoded as {_type_name(self.type)}: {error}"
            raise (UnfitMessage if _is_json(data) else UnprocessableMessage)(message) from error


def _is_json(data: bytes) -> bool:
    try:
        msgspec.json.decode(data)
    except NO_JSON:
        return False
    return True


def _reader(kind: Any) -> Callable[[bytes], Any]:
    """A function that decodes JSON as this type.

    Raises:
        InvalidMessage: the type is not supported.
    """
    if models.is_model(kind):
        return partial(models.read, kind)
    try:
        if kind is Any or not models.is_strange(kind):
            return msgspec.json.Decoder(kind, dec_hook=models.decode).decode
        why = ""
    except TypeError as error:
        why = f" ({error})"
    raise InvalidMessage(f"bodies cannot be of type {_type_name(kind)}{why}: use {models.KINDS}")


def _type_name(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) else str(kind)


def _lost_number(body: Any) -> str | None:
    """The path of the first NaN or infinity in a body; None: there is none."""

    def inside(value: Any) -> Any:  # msgspec.Raw is JSON already
        return value.model_dump() if models.is_model(type(value)) else None

    return next(_not_finite(msgspec.to_builtins(body, enc_hook=inside)), None)


def _not_finite(value: Any, path: str = "body") -> Iterator[str]:
    """The paths of NaN and infinity, which msgspec encodes as null."""
    if isinstance(value, float) and not math.isfinite(value):
        yield f"{path} is {value}"
    elif isinstance(value, dict):
        for name, inner in value.items():  # pyright: ignore[reportUnknownVariableType]
            yield from _not_finite(inner, f"{path}[{name!r}]")
    elif isinstance(value, list | tuple | set | frozenset):
        for place, inner in enumerate(value):  # pyright: ignore[reportUnknownVariableType,reportUnknownArgumentType]
            yield from _not_finite(inner, f"{path}[{place}]")


def _pack_headers(headers: Any, key: str | None, dependency: str | None, fields: bytes) -> bytes:
    if not isinstance(headers, Mapping):
        message = f"headers must be a mapping of text to text, not of type {type(headers).__name__}"
        raise InvalidMessage(message)
    given: Mapping[Any, Any] = headers  # pyright: ignore[reportUnknownVariableType]
    for name, value in given.items():
        if not (isinstance(name, str) and isinstance(value, str)):
            message = f"header {name!r}: names and values must be text, not {type(value).__name__}"
            raise InvalidMessage(message)
    try:
        # The hook is for subclasses of str, such as `Sent`.
        data = msgspec.json.encode(dict(given), enc_hook=str) if given else b""
    except UnicodeEncodeError:
        raise InvalidMessage("a header has text that UTF-8 cannot encode (a lone surrogate)") from None
    data = fields + data
    if dependency is not None:
        data = record.pack_field(record.DEPENDENCY, keys.packed(dependency, "dependency")) + data
    if key is not None:
        data = record.pack_field(record.KEY, keys.packed(key)) + data
    if len(data) > record.MAX_BLOCK:
        message = f"headers of {len(data):,} bytes: the limit is {record.MAX_BLOCK:,}; put data into the body"
        raise MessageTooLarge(message)
    return data
