"""What a broker is made of, as a value that crosses processes: the URL, the settings, no connection."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypedDict

import msgspec
from msgspec import UNSET

from rq_dlq._calls import Command
from rq_dlq._keys import QueueKeys
from rq_dlq._names import Naming, check_name
from rq_dlq._work import MOST, Queue, Steps
from rq_dlq.codec import Codec, Ids
from rq_dlq.durations import Duration, milliseconds, shown
from rq_dlq.errors import BrokerRefused, ConfigurationError, InvalidInput
from rq_dlq.policy import DeadLetterStrategy, Entry, ExpiryPolicy, RedeliveryPolicy

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_MESSAGE_BYTES = 1 << 20
OLDEST_SERVER = (6, 2)


class Declared(TypedDict, total=False):
    """What a program may say of a queue in code; it is written to Redis and stands until another is declared.

    redelivery: when what failed comes back; None: not said.
    dead_letter: what becomes of what died; None: it is discarded.
    expiry: times to live, and what becomes of what outlived them.
    max_in_flight: deliveries at a time, of all consumers together; None: no limit.
    outcomes: how many events the queue's outcome history keeps, about; None or 0: it is not written.
    """

    redelivery: RedeliveryPolicy | None
    dead_letter: DeadLetterStrategy | Mapping[str, object] | None
    expiry: ExpiryPolicy | Mapping[str, object]
    max_in_flight: int | None
    outcomes: int | None


@dataclass(frozen=True, kw_only=True)
class BrokerSettings:
    """The settings of a broker.

    Args:
        url: of Redis; None: $RQ_DLQ_URL, else the embedded server.
        namespace: what all keys begin with; unless said $RQ_DLQ_NAMESPACE, else "rq".
        naming: how dead-letter and expiry queues are called.
        max_message_bytes: of headers and body, encoded.
        require_noeviction: refuse a server that would evict queues when memory is full.
    """

    url: str | None = field(default=None, repr=False)  # it may hold a password
    namespace: str = field(default_factory=lambda: os.environ.get("RQ_DLQ_NAMESPACE") or "rq")
    naming: Naming = field(default_factory=Naming)
    max_message_bytes: int = MAX_MESSAGE_BYTES
    require_noeviction: bool = True

    def __post_init__(self) -> None:
        check_name(self.namespace)
        if type(self.max_message_bytes) is not int or self.max_message_bytes < 1:
            message = f"max_message_bytes {self.max_message_bytes!r}: use a whole number of bytes, at least 1"
            raise ConfigurationError(message)
        naming: object = self.naming
        if not isinstance(naming, Naming):
            message = f"naming {self.naming!r}: pass a Naming, with a template for each kind of queue"
            raise ConfigurationError(message)

    def queue(
        self, name: str, ids: Ids, kind: Any, lease: Duration, declared: Mapping[str, Any]
    ) -> Queue[Any]:
        """What the verbs of one queue need to know.

        Args:
            declared: arguments of `Entry.of`; None, or UNSET, is not said.

        Raises:
            InvalidName, InvalidDuration, InvalidMessage, PolicyError: an argument makes no sense.
        """
        address = self.naming.resolve(name)
        said = {key: value for key, value in declared.items() if value is not UNSET}
        if said.get("redelivery", UNSET) is None:
            del said["redelivery"]
        if said and address.part != "live":
            message = f"{name!r} has no policy: what fails there stays there. Set it on {address.home!r}"
            raise InvalidInput(message)
        redelivery: object = said.get("redelivery", RedeliveryPolicy())
        if not isinstance(redelivery, RedeliveryPolicy):
            message = f"redelivery of {name!r}: pass a RedeliveryPolicy, not {shown(redelivery)}"
            raise InvalidInput(message)
        codec: Codec[Any] = Codec(kind, self.max_message_bytes)
        return Queue(
            name=name,
            keys=QueueKeys(self.namespace, address.home),
            part=address.part,  # type: ignore[arg-type]
            codec=codec,
            lease=milliseconds(lease, name="lease", minimum=1),
            redelivery=redelivery,
            declared=Entry.of(**said) if said else None,
            said=said,
            consumer=consumer_name(),
            ids=ids,
            naming=self.naming,
        )

    def check_server(self) -> Steps[tuple[int, ...]]:
        """Look at the server once, before the first operation; its version, empty where it does not say.

        Raises:
            BrokerRefused: it is older than Redis 6.2, or would evict queues.
        """
        facts = yield from server_facts()
        version = version_of(facts.get("redis_version", ""))
        if version and version < OLDEST_SERVER:
            message = (
                f"the server is Redis {facts['redis_version']}; 6.2 is the oldest that has what queues "
                "need: upgrade it"
            )
            raise BrokerRefused(message)
        eviction = facts.get("maxmemory_policy", "noeviction")
        if self.require_noeviction and eviction != "noeviction":
            message = (
                f"the server's maxmemory-policy is {eviction}: when memory is full it would drop whole "
                "queues. Run `redis-cli CONFIG SET maxmemory-policy noeviction`"
            )
            raise BrokerRefused(message)
        return version


def server_facts() -> Steps[Mapping[str, str]]:
    """What INFO says; empty where it may not be asked."""
    facts: dict[str, str] = {}
    for section in (b"server", b"memory", b"persistence", b"replication"):
        try:
            facts |= yield Command((b"INFO", section), _read_info)
        except BrokerRefused:
            return facts
    return facts


def _read_info(reply: Any, repeated: bool) -> dict[str, str]:
    del repeated
    lines = reply.decode(errors="replace").splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line and not line.startswith("#"))


def version_of(text: str) -> tuple[int, ...]:
    """(7, 0, 15) of "7.0.15"."""
    return tuple(int(part) for part in text.split(".")[:3] if part.isdigit())


def consumer_name() -> str:
    """Who claims: host and process, as a JSON text."""
    return msgspec.json.encode(f"{socket.gethostname()}:{os.getpid()}").decode()


def count_of(count: int) -> int:
    """Check how many messages a claim asks for.

    Raises:
        InvalidInput: it is not a whole number from 1 to 1,000.
    """
    if type(count) is not int or not 1 <= count <= MOST:
        message = f"count {count!r}: ask for 1 to {MOST:,} messages at a time"
        raise InvalidInput(message)
    return count
