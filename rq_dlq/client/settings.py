"""The settings of a broker, as a value that can be sent to other processes."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from rq_dlq._keys import QueueKeys
from rq_dlq._redis import FAIL_FAST, ONE_TRY, Retries, check_scheme
from rq_dlq.client.durability import DURABILITIES, KEEP, Durability, configuration, what_fsync_lacks
from rq_dlq.core.policies.given_names import check_not_own
from rq_dlq.core.queues.client import Client
from rq_dlq.core.queues.queue import QueueState
from rq_dlq.core.steps import confirm
from rq_dlq.core.steps.call import Command
from rq_dlq.core.steps.confirm import Confirm
from rq_dlq.core.steps.step import MOST, Pipeline, Steps
from rq_dlq.errors import BrokerRefused, ConfigurationError, InvalidInput
from rq_dlq.policy import Breaker, Entry, RedeliveryPolicy
from rq_dlq.policy.partial import complete
from rq_dlq.values.codec import Codec
from rq_dlq.values.counted import Counted
from rq_dlq.values.durations import Duration, milliseconds, shown
from rq_dlq.values.names import Naming, check_name
from rq_dlq.values.version import OLDEST_SERVER

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


MAX_MESSAGE_BYTES = 1 << 20
LONGEST_VERSION = 60  # characters
MAX_CONFIRM = 4_000  # milliseconds; shorter than a socket's timeout


@dataclass(frozen=True, kw_only=True)
class BrokerSettings:
    """The settings of a broker.

    Args:
        url: the URL of Redis; None: $RQ_DLQ_URL, or the embedded server if that is unset.
        namespace: the prefix of all keys; by default $RQ_DLQ_NAMESPACE, or "rq" if that is unset.
        naming: the templates for the names of dead-letter and expiry queues.
        max_message_bytes: the largest size of encoded headers and body to send, and of a JSON body to read.
        require_noeviction: refuse a server that would evict queues when memory is full. If the Redis user has
            no right to run INFO, workers and `rq-dlq doctor` warn that this is unknown.
        durability: the guarantee when a call that sends messages returns. "memory": the server has them.
            "fsync": its disk has them; a server that does not write each change to disk before it replies is
            refused. "replicated": `replicas` replicas also have them; otherwise `Unconfirmed` is raised. With
            "fsync" and "replicated" the server is checked again before it accepts messages: on each new
            connection, and after 30 s. See docs/reliability.md.
        replicas: how many replicas must confirm, with "replicated".
        confirm_within: how long to wait for the replicas; at most 4 s, and less than your `socket_timeout`.
        fingerprint: a function that takes an exception and returns a name for its kind, by which dead letters
            are grouped. If it returns None, they are grouped by the error's class, place and text. A broker
            can be pickled only if this is a function of a module.
        patience: how long a call is repeated while no server answers, before it raises `BrokerUnavailable`;
            "0s" means one try. None: 5 s through Sentinel and on a cluster, where another server takes over;
            three tries within a second on a single server, where nothing else can. Workers wait longer: they
            go on when the server is back.
        version: your program's version, such as "1.4.2", at most 60 characters. It is recorded with each
            failure, and a group of dead letters counts deaths by version.

    Examples:
        >>> BrokerSettings(namespace="shop", durability="fsync").max_message_bytes
        1048576
    """

    url: str | None = field(default=None, repr=False)  # it may hold a password
    namespace: str = field(default_factory=lambda: os.environ.get("RQ_DLQ_NAMESPACE", "rq"))
    naming: Naming = field(default_factory=Naming)
    max_message_bytes: int = MAX_MESSAGE_BYTES
    require_noeviction: bool = True
    durability: Durability = "memory"
    replicas: int = 1
    confirm_within: Duration = "1s"
    fingerprint: Callable[[BaseException], str | None] | None = None
    version: str = ""
    patience: Duration | None = None

    def __post_init__(self) -> None:
        url: object = self.url
        if url is not None and not isinstance(url, str):
            message = (
                f'{shown(url)} is not a URL: pass "redis://host:6379/0", or the pool of a redis-py client, '
                "Broker(pool=client.connection_pool)"
            )
            raise ConfigurationError(message)
        if url is not None:
            check_not_empty(url, "the URL of the broker")
            check_scheme(url)
        check_name(self.namespace, "namespace")
        if type(self.max_message_bytes) is not int or self.max_message_bytes < 1:
            message = f"max_message_bytes {self.max_message_bytes!r}: use a whole number of bytes, at least 1"
            raise ConfigurationError(message)
        naming: object = self.naming
        if not isinstance(naming, Naming):
            message = f"naming {self.naming!r}: pass a Naming, with a template for each kind of queue"
            raise ConfigurationError(message)
        fingerprint: object = self.fingerprint
        if fingerprint is not None and not callable(fingerprint):
            message = f"fingerprint {shown(fingerprint)}: pass a function of an exception"
            raise ConfigurationError(message)
        version: object = self.version
        if not isinstance(version, str) or len(version) > LONGEST_VERSION or not version.isprintable():
            message = f"version {shown(version)}: pass a text of at most {LONGEST_VERSION} characters"
            raise ConfigurationError(message)
        retries_of(self.patience)
        self._check_durability()

    def _check_durability(self) -> None:
        if self.durability not in DURABILITIES:
            message = f"durability {shown(self.durability)}: choose from {', '.join(DURABILITIES)}"
            raise ConfigurationError(message)
        if type(self.replicas) is not int or self.replicas < 1:
            message = f"replicas {self.replicas!r}: use a whole number of replicas, at least 1"
            raise ConfigurationError(message)
        if self.replicas > 1 and self.durability != "replicated":
            message = f"replicas={self.replicas} requires durability='replicated', not {self.durability!r}"
            raise ConfigurationError(message)
        if milliseconds(self.confirm_within, name="confirm_within", minimum=1) > MAX_CONFIRM:
            message = f"confirm_within {self.confirm_within!r}: use at most {MAX_CONFIRM} ms"
            raise ConfigurationError(message)

    @property
    def confirm(self) -> Confirm | None:
        """The replicas that must confirm; None: the server's reply is enough."""
        if self.durability != "replicated":
            return None
        return Confirm(self.replicas, milliseconds(self.confirm_within, name="confirm_within"))

    def _client(self) -> Client:
        """What all queue objects of a broker share."""
        return Client(confirm=self.confirm, fingerprint=self.fingerprint, version=self.version)

    def queue(
        self,
        name: str,
        kind: Any,
        lease: Duration,
        declared: Mapping[str, Any],
        client: Client,
    ) -> QueueState[Any]:
        """The core of a queue: the state that its verbs share.

        Args:
            declared: see `Declared`.
            client: of the broker.

        Raises:
            InvalidName, InvalidDuration, InvalidMessage, PolicyError: an argument is not valid.
        """
        address = self.naming.resolve(name)
        given = {key: value for key, value in declared.items() if value is not UNSET}
        if given.get("redelivery", UNSET) is None:
            del given["redelivery"]
        if given and address.part != "live":
            message = (
                f"{name!r} has no policy, since messages that fail there stay there. Set it on "
                f"{address.family!r}"
            )
            raise InvalidInput(message)
        declared_entry = Entry.of(**given) if given else None
        if declared_entry is not None:
            check_not_own(address.family, declared_entry)
        redelivery: object = given.get("redelivery")
        if not isinstance(redelivery, RedeliveryPolicy):
            redelivery = complete(declared_entry.part("redelivery") if declared_entry else {})
        codec: Codec[Any] = Codec(Any if kind is None else kind, self.max_message_bytes)
        return QueueState(
            name=name,
            keys=QueueKeys(self.namespace, address.family),
            part=address.part,  # type: ignore[arg-type]
            codec=codec,
            lease=milliseconds(lease, name="lease", minimum=1),
            redelivery=redelivery,
            declared=declared_entry,
            counted=_counted(given.get("breaker")),
            given=given,
            consumer=consumer_name(),
            client=client,
            naming=self.naming,
        )

    def check_server(self) -> Steps[tuple[int, ...]]:
        """Check the server before the first operation, then periodically; returns its version, or ().

        Raises:
            BrokerRefused: it is older than Redis 6.2, would evict queues, or cannot provide this durability.
                Its version and eviction policy are not checked if INFO is refused.
        """
        facts = yield from server_facts()
        version = version_of(facts.get("redis_version", ""))
        if version and version < OLDEST_SERVER:
            message = f"the server is Redis {facts['redis_version']}; queues need 6.2 or later: upgrade it"
            raise BrokerRefused(message)
        eviction = facts.get("maxmemory_policy")
        if self.require_noeviction and eviction not in {None, "noeviction"}:
            message = (
                f"the server's maxmemory-policy is {eviction}: when memory is full, it would delete whole "
                f"queues. Run `redis-cli CONFIG SET maxmemory-policy noeviction`, {KEEP}"
            )
            raise BrokerRefused(message)
        yield from self._check_promise(facts)
        return version

    def _check_promise(self, facts: Mapping[str, str]) -> Steps[None]:
        """Refuse a server that cannot provide the chosen `durability`."""
        if self.durability == "fsync":
            lacks = what_fsync_lacks(facts, (yield from configuration()))
            if lacks:
                message = f"the server cannot provide durability='fsync': {lacks}"
                raise BrokerRefused(message)
        elif self.durability == "replicated":
            try:
                yield confirm.confirmed_by(0, 1)
            except BrokerRefused as error:
                message = f"durability='replicated' needs WAIT: {error}"
                raise BrokerRefused(message) from None


def retries_of(patience: Duration | None) -> Retries:
    """How long a call is repeated while no server answers; None: as long as the kind of server suggests."""
    if patience is None:
        return FAIL_FAST
    seconds = milliseconds(patience, name="patience") / 1000
    return Retries(attempts=None, seconds=seconds) if seconds else ONE_TRY


def known_url(given: str | None) -> str | None:
    """The given URL, or $RQ_DLQ_URL if none is given; None: neither is set.

    Raises:
        ConfigurationError: it is empty.
    """
    if given is not None:
        check_not_empty(given, "the URL of the broker")
    elif (given := os.environ.get("RQ_DLQ_URL")) is not None:
        check_not_empty(given, "RQ_DLQ_URL")
    return given


def check_not_empty(url: str, source: str) -> None:
    """Check that a URL is not empty: an empty variable does not select the embedded server.

    Raises:
        ConfigurationError: it is empty.
    """
    if not url.strip():
        message = (
            f"{source} is empty: set it to redis://host:6379/0, or leave it unset to use the embedded server"
        )
        raise ConfigurationError(message)


def server_facts() -> Steps[Mapping[str, str]]:
    """The fields of INFO; empty if it is refused."""
    sections = (b"server", b"memory", b"persistence", b"replication", b"cluster")
    try:
        parts = yield Pipeline([Command((b"INFO", section), read_info) for section in sections])
    except BrokerRefused:
        return {}
    return {name: value for part in parts for name, value in part.items()}


def read_info(reply: Any) -> dict[str, str]:
    """Read a reply of lines, `name:value`."""
    lines = reply.decode(errors="replace").splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line and not line.startswith("#"))


def version_of(text: str) -> tuple[int, ...]:
    """(7, 0, 15) for "7.0.15"."""
    return tuple(int(part) for part in text.split(".")[:3] if part.isdigit())


def process_name() -> str:
    """The name of this process: host and process id."""
    return f"{socket.gethostname()}:{os.getpid()}"


def consumer_name() -> str:
    """The same as a JSON text: the name of this consumer."""
    return msgspec.json.encode(process_name()).decode()


def count_of(count: int) -> int:
    """Check the count of a claim.

    Raises:
        InvalidInput: it is not a whole number from 1 to 1,000.
    """
    if type(count) is not int or not 1 <= count <= MOST:
        message = f"count {count!r}: ask for 1 to {MOST:,} messages at a time"
        raise InvalidInput(message)
    return count


def _counted(breaker: object) -> Counted:
    """The errors that count against a dependency."""
    return Counted.of(breaker.errors if isinstance(breaker, Breaker) else ())
