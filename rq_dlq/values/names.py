"""Valid names of queues and ids of messages, and the names of dead-letter and expiry queues."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from rq_dlq.errors import InvalidMessage, InvalidName
from rq_dlq.values.visible import STEERS

MAX_BYTES = 200
_PLAIN = rf"[^\s{STEERS}*#>{{}}\"'\\]+"
# "{shop}.orders" is on the same node of a cluster as "{shop}.mail".
_NAME = re.compile(rf"(?:\{{{_PLAIN}\}}\.)?{_PLAIN}")
_FOREIGN = (
    (",", "a message goes to one queue: send it to each queue separately"),
    ("://", "use the name without queue:// or topic://; for topics see docs/instead.md"),
    ("::", "from Artemis' address::queue use only the queue"),
    ("?", "options such as ?consumer.exclusive=true are not part of a name; see docs/instead.md"),
)
"""Parts of names with a meaning in other brokers, and the advice for each."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


@dataclass(frozen=True, slots=True)
class Template:
    """The template for the name of a dead-letter or expiry queue: prefix + queue's name + suffix.

    Args:
        prefix: the text before the queue's name.
        suffix: the text after it; empty by default.

    Examples:
        >>> shop = Broker(naming=Naming(dead=Template("", ".dead")))
        >>> shop.queue("orders.dead").name
        'orders.dead'
    """

    prefix: str
    suffix: str = ""

    def of(self, family: str) -> str:
        """The full name for a queue's dead letters, or its expired messages."""
        return f"{self.prefix}{family}{self.suffix}"

    def family_of(self, name: str) -> str | None:
        """The queue that a full name belongs to; None: the name does not match."""
        if not (name.startswith(self.prefix) and name.endswith(self.suffix)):
            return None
        family = name[len(self.prefix) : len(name) - len(self.suffix)]
        return family or None


@dataclass(frozen=True, slots=True)
class Address:
    """The meaning of a name: the `part` (live, dead or expired) of the queue `family`."""

    family: str
    part: str = "live"


@dataclass(frozen=True, slots=True)
class Naming:
    """The templates of one broker.

    Args:
        dead: the template for dead-letter queues.
        expired: the template for expiry queues.

    Examples:
        >>> shop = Broker(broker.url, naming=Naming(dead=Template("DEAD.")))
        >>> shop.queue("orders").settings().dead_name
        'DEAD.orders'
    """

    dead: Template = Template("DLQ.")
    expired: Template = Template("EXP.")

    def resolve(self, name: str) -> Address:
        """The address of a name.

        Raises:
            InvalidName: it is not a valid queue name.
        """
        for part, template in (("dead", self.dead), ("expired", self.expired)):
            family = template.family_of(name) if isinstance(name, str) else None  # pyright: ignore[reportUnnecessaryIsInstance]
            if family is None:
                continue
            if self.dead.family_of(family) or self.expired.family_of(family):
                raise InvalidName(
                    f"{name!r}: a dead-letter or expiry queue has no dead-letter queue, since messages that "
                    f"fail there stay there. Use {family!r}"
                )
            check_name(family)  # not the whole name: a hash tag can only be in front of `family`
            return Address(family, part)
        check_name(name)
        return Address(name)


def check_name(name: object, of: Literal["queue", "namespace"] = "queue") -> None:
    """Check the name of a queue, or a namespace.

    Raises:
        InvalidName: it is not valid.
    """
    if not isinstance(name, str) or not name:
        raise InvalidName(f"a {of}'s name must be text of at least one character, not {name!r}")
    if _size(name) > MAX_BYTES:
        message = f"the {of} name {name[:20]!r}… is longer than {MAX_BYTES} bytes: choose a shorter one"
        raise InvalidName(message)
    if of == "queue":
        for mark, answer in _FOREIGN:
            if mark in name:
                raise InvalidName(f"{name!r} cannot name a queue: {answer}")
    if not _NAME.fullmatch(name) or _size(name) < 0:
        raise InvalidName(
            f"{name!r} cannot name a {of}: use letters, digits and . - _ : /; "
            "no spaces, quotes, wildcards or control characters, and braces only around a hash tag in front, "
            "as in {shop}.orders"
        )


def check_id(message_id: object) -> None:
    """Check a message's id.

    Raises:
        InvalidMessage: it is not a valid id.
    """
    if not isinstance(message_id, str) or not message_id:
        raise InvalidMessage(f"a message's id must be text of at least one character, not {message_id!r}")
    if _CONTROL.search(message_id) or not 0 <= _size(message_id) <= MAX_BYTES:
        raise InvalidMessage(
            f"{message_id[:40]!r} cannot be a message's id: use at most {MAX_BYTES} bytes of text without "
            "control characters"
        )


def _size(text: str) -> int:
    """The size in UTF-8; -1 if the text cannot be encoded (a lone surrogate)."""
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        return -1
