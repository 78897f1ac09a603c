"""What a queue and a message may be called, and whose dead letters a name means."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rq_dlq.errors import InvalidMessage, InvalidName

MAX_BYTES = 200
_PLAIN = r"[^\s\x00-\x1f\x7f-\x9f*#>{}\"'\\]+"
_NAME = re.compile(
    rf"(?:\{{{_PLAIN}\}}\.)?{_PLAIN}"
)  # "{shop}.orders" shares a node of a cluster with "{shop}.mail"
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


@dataclass(frozen=True, slots=True)
class Template:
    """How the queue that belongs to another one is called: prefix + name + suffix."""

    prefix: str
    suffix: str = ""

    def of(self, home: str) -> str:
        """The full name for a queue's family."""
        return f"{self.prefix}{home}{self.suffix}"

    def home_of(self, name: str) -> str | None:
        """The queue that a full name belongs to; None: the name is not of this form."""
        if not (name.startswith(self.prefix) and name.endswith(self.suffix)):
            return None
        home = name[len(self.prefix) : len(name) - len(self.suffix)]
        return home or None


@dataclass(frozen=True, slots=True)
class Address:
    """A queue's place: `part` (live, dead or expired) of the family of `home`."""

    home: str
    part: str = "live"


@dataclass(frozen=True, slots=True)
class Naming:
    """The templates of one broker.

    Args:
        dead: of dead-letter queues.
        expired: of expiry queues.
    """

    dead: Template = Template("DLQ.")
    expired: Template = Template("EXP.")

    def resolve(self, name: str) -> Address:
        """Where the queue of this name is.

        Raises:
            InvalidName: it cannot be a queue's name.
        """
        for part, template in (("dead", self.dead), ("expired", self.expired)):
            home = template.home_of(name) if isinstance(name, str) else None  # pyright: ignore[reportUnnecessaryIsInstance]
            if home is None:
                continue
            if self.dead.home_of(home) or self.expired.home_of(home):
                message = (
                    f"{name!r}: a dead-letter or expiry queue has none of its own; "
                    f"what fails there stays there. Use {home!r}"
                )
                raise InvalidName(message)
            check_name(home)  # not the whole name: where the home has a hash tag, that is not in front
            return Address(home, part)
        check_name(name)
        return Address(name)

    def name_of(self, address: Address) -> str:
        """The name that people use for a place."""
        if address.part == "live":
            return address.home
        template = self.dead if address.part == "dead" else self.expired
        return template.of(address.home)


def check_name(name: object) -> None:
    """Raise InvalidName unless this can be a queue's name."""
    if not isinstance(name, str) or not name:
        message = f"a queue's name is text of at least one character, not {name!r}"
        raise InvalidName(message)
    if _size(name) > MAX_BYTES:
        message = f"the queue name {name[:20]!r}… is longer than {MAX_BYTES} bytes: choose a shorter one"
        raise InvalidName(message)
    if not _NAME.fullmatch(name) or _size(name) < 0:
        message = (
            f"{name!r} cannot name a queue: use letters, digits and . - _ : /; "
            "no spaces, quotes, wildcards or control characters, and braces only around a hash tag in front, "
            "as in {shop}.orders"
        )
        raise InvalidName(message)


def check_id(message_id: object) -> None:
    """Raise InvalidMessage unless this can be a message's id."""
    if not isinstance(message_id, str) or not message_id:
        message = f"a message's id is text of at least one character, not {message_id!r}"
        raise InvalidMessage(message)
    if _CONTROL.search(message_id) or not 0 <= _size(message_id) <= MAX_BYTES:
        message = (
            f"{message_id[:40]!r} cannot be a message's id: at most {MAX_BYTES} bytes of text "
            "without control characters"
        )
        raise InvalidMessage(message)


def _size(text: str) -> int:
    """Bytes in UTF-8; -1 where the text has none (a lone surrogate)."""
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        return -1
