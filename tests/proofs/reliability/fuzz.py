"""The decoders and parsers, each under a fuzzer that is guided by what code an input reaches.

python -m tests.proofs.reliability.fuzz record corpus -runs=100000 -seed=1
"""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Callable
from typing import Any

import atheris

with atheris.instrument_imports(include=["rq_dlq"]):
    import msgspec
    from redis import exceptions

    from rq_dlq import Message, RedeliveryPolicy
    from rq_dlq._redis.errors import refusal
    from rq_dlq._redis.urls import masked
    from rq_dlq.cli._input import READERS
    from rq_dlq.core.processes.processes import _read as read_report
    from rq_dlq.errors import RqDlqError
    from rq_dlq.filters import Filter
    from rq_dlq.policy.patterns import Pattern
    from rq_dlq.policy.policy_map import PolicyMap
    from rq_dlq.policy_files import read_broker_xml, read_toml
    from rq_dlq.values.codec import Codec
    from rq_dlq.values.durations import human, milliseconds
    from rq_dlq.values.failure import Cause, read_history
    from rq_dlq.values.message import DeadLetter, MessageRow
    from rq_dlq.values.names import Naming, Template, check_id, check_name
    from rq_dlq.values.outcome import read_outcome
    from rq_dlq.values.visible import visible

TOLD = (
    "body", "headers", "priority", "enqueued_at", "expires_at", "delivery_count", "charged", "history",
    "reason", "died_at", "cause", "data", "part", "due", "fingerprint", "redelivered",
)  # fmt: skip
ANY: Codec[Any] = Codec(Any, 1 << 20)
NAMING = Naming()


class Order(msgspec.Struct):
    """A body with a type."""

    number: int
    total: float
    lines: list[dict[str, str | None]] = []
    paid: bool = False


TYPED: Codec[Any] = Codec(Order, 1 << 20)


def record(data: bytes) -> None:
    """A record, a state and a history, as they come from Redis."""
    parts = [*data.split(b"\0\0\0", 2), b"", b"", b""]
    letter = DeadLetter(MessageRow("m", parts[0], parts[1], parts[2]), ANY, "q")
    for name in TOLD:
        with contextlib.suppress(RqDlqError):
            getattr(letter, name)


def body(data: bytes) -> None:
    """A body of a type, and of any."""
    for codec in (TYPED, ANY):
        with contextlib.suppress(RqDlqError):
            codec.decode(data, raw=False)


def history(data: bytes) -> None:
    """A story; what we wrote ourselves reads as we meant it."""
    read_history(data)
    cause = Cause.of(data.decode(errors="replace"))
    told = f"nacked\t1\t1\t0\t\t{cause.cells()}".encode()
    assert read_history(told)[0].cause == cause


def outcome(data: bytes) -> None:
    """An entry of an outcome history."""
    cells = data.split(b"\0")
    read_outcome("q", ("1-0", cells))


def duration(data: bytes) -> None:
    """A span; what we write of one reads as the same."""
    text = data.decode(errors="replace")
    span = milliseconds(text, name="span")
    assert milliseconds(human(span), name="span") == span


def condition(data: bytes) -> None:
    """A filter; one that parses takes any message, or does not."""
    parsed = Filter.parse(data.decode(errors="surrogateescape"))
    pack = ANY.packer(4, {"tenant": "a"})
    message = DeadLetter(MessageRow("m", b"\x06\x55\0\0\0\0\0" + pack({"a": 1}), b"", b""), ANY, "q")
    parsed.takes(message, 1_790_000_000_000)
    assert str(Filter.parse(str(parsed))) == str(parsed)


def pattern(data: bytes) -> None:
    """A pattern of queues, and a name."""
    text = data.decode(errors="surrogateescape")
    Pattern.parse(text).matches(text)


def name(data: bytes) -> None:
    """The name of a queue; a good one comes back from what it is resolved to."""
    text = data.decode(errors="surrogateescape")
    with contextlib.suppress(RqDlqError):
        check_id(text)
    check_name(text)
    address = NAMING.resolve(text)
    named = {"live": Template(""), "dead": NAMING.dead, "expired": NAMING.expired}[address.part]
    assert named.of(address.family) == text


def toml(data: bytes) -> None:
    """A file of policies."""
    read_toml(data.decode(errors="replace"))


def xml(data: bytes) -> None:
    """A broker.xml or an activemq.xml."""
    read_broker_xml(data)


def policies(data: bytes) -> None:
    """The map of policies as it stands in Redis."""
    cells = data.split(b"\0")
    known = PolicyMap.read(dict(zip(cells[::2], cells[1::2], strict=False)), NAMING)
    known.settings("orders.eu", None)


def wire(data: bytes) -> None:
    """A redelivery policy as the scripts take it."""
    with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        policy = RedeliveryPolicy.from_wire(msgspec.json.decode(data, type=dict[str, Any]))
        assert isinstance(policy, RedeliveryPolicy)
        policy.delay(1)


def report(data: bytes) -> None:
    """What a process reports of itself."""
    read_report(b"me:1", data, 0)


def lines(data: bytes) -> None:
    """Files of messages: text, JSON lines, CSV."""
    for reader in READERS.values():
        for _, parsed in reader(io.BytesIO(data)):
            if not isinstance(parsed, RqDlqError):
                with contextlib.suppress(RqDlqError):
                    ANY.packer(4, {})(parsed)


def refused(data: bytes) -> None:
    """What a server said."""
    assert isinstance(refusal(exceptions.ResponseError(data.decode(errors="replace"))), Exception)


def url(data: bytes) -> None:
    """A URL with a password, which is not shown."""
    text = data.decode(errors="replace").replace("needle", "")
    shown = masked(f"redis://user:needle{text}@host:1/0?{text}")
    assert "needle" not in shown, shown
    shown = masked(f"redis://host:1/0?password={text.replace('&', '')}needle")
    assert "needle" not in shown, shown


def shown(data: bytes) -> None:
    """What others wrote, on a terminal."""
    text = visible(data.decode(errors="surrogateescape"))
    assert not any(letter < " " and letter not in "\n\t" for letter in text)


def message(data: bytes) -> None:
    """A body that is sent comes back, whatever text it is."""
    text = data.decode(errors="replace")
    packed = ANY.packer(9, {text[:10]: text})(text)
    letter = DeadLetter(MessageRow("m", b"\0" * 7 + packed, b"", b""), ANY, "q")
    assert (letter.body, letter.headers) == (text, {text[:10]: text})
    with contextlib.suppress(RqDlqError):
        Message(body=text, id=text)


TARGETS: dict[str, Callable[[bytes], None]] = {
    target.__name__: target
    for target in (
        record, body, history, outcome, duration, condition, pattern, name, toml, xml, policies, wire,
        report, lines, refused, url, shown, message,
    )
}  # fmt: skip


def main() -> None:
    """Run one target until the fuzzer has enough; it leaves with 77 where an error was none of ours."""
    target = TARGETS[sys.argv.pop(1)]

    def one(data: bytes) -> None:
        with contextlib.suppress(RqDlqError):
            target(data)

    atheris.Setup(sys.argv, one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
