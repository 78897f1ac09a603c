"""Access control: the token, the login of the host, the session, and the CSRF token of a form (its mark)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypeAlias

import msgspec
from starlette.requests import HTTPConnection

from rq_dlq.errors import ConfigurationError
from rq_dlq.values.readable import many

COOKIE = "rq_dlq_web"
SESSION = 12 * 3600  # seconds
SHORTEST = 16  # the shortest token, characters
MOST_NAME = 100  # characters
User: TypeAlias = Callable[[HTTPConnection], str | None]
"""The sender of a request, by the host's login; None: the sender may not see the page."""


class _BrowserSession(msgspec.Struct, array_like=True):
    name: str
    ends: float
    id: str


@dataclass(frozen=True, kw_only=True)
class Access:
    """The rights to read and to change.

    Args:
        token: opens the page.
        user: instead of a token, a function that returns the name of the sender of a request.
        write: changes are allowed.
        secret: signs forms, in place of the token; None: a random one, which other processes do not know.

    Raises:
        ConfigurationError: there is neither a token nor a user, or both; or the token is too short.
    """

    token: str | None = None
    user: User | None = None
    write: bool = False
    secret: str | None = field(default=None, repr=False)
    _key: bytes = field(init=False, repr=False)
    _ended: dict[str, float] = field(init=False, repr=False, default_factory=dict[str, float])

    def __post_init__(self) -> None:
        if (self.token is None) == (self.user is None):
            message = (
                "the page needs a login: pass token=…, which users enter once, or user=…, a function that "
                "takes the request and returns the name of the user logged in at the host, or None"
            )
            raise ConfigurationError(message)
        if self.token is not None:  # one from a file or $(…) may end with a line break
            object.__setattr__(self, "token", self.token.strip())
        if self.token is not None and len(self.token) < SHORTEST:
            message = (
                f"the token has {many(len(self.token), 'character')}, which can be guessed: use at least "
                f'{SHORTEST}, for example from python -c "import secrets; print(secrets.token_urlsafe())"'
            )
            raise ConfigurationError(message)
        secret = self.token or self.secret
        key = secrets.token_bytes() if secret is None else hashlib.sha256(secret.encode()).digest()
        object.__setattr__(self, "_key", key)

    def who(self, request: HTTPConnection) -> str | None:
        """The name of the sender of a request; None: the sender may not see the page."""
        if self.user is not None:
            return (self.user(request) or "")[:MOST_NAME] or None
        if self._bears(request):
            return "web"
        session = self._session_in(request)
        return session.name if session else None

    def opens(self, given: str) -> bool:
        """Whether this is the token, in constant time."""
        return self.token is not None and hmac.compare_digest(given.encode(), self.token.encode())

    def _bears(self, request: HTTPConnection) -> bool:
        """Whether a request has the token itself in a header."""
        kind, _, given = request.headers.get("authorization", "").partition(" ")
        return kind.lower() == "bearer" and self.opens(given.strip())

    def session(self, name: str) -> str:
        """The session cookie for a user who entered the token."""
        name = name.strip()[:MOST_NAME] or "web"
        return self.signed(
            b"session",
            msgspec.json.encode(_BrowserSession(name, _now() + SESSION, secrets.token_urlsafe(12))),
        )

    def end(self, request: HTTPConnection) -> None:
        """End the session of a request: this process no longer accepts its cookie."""
        if session := self._session_in(request):
            for one in [one for one, ends in self._ended.items() if ends <= _now()]:
                del self._ended[one]
            self._ended[session.id] = session.ends

    def mark(self, request: HTTPConnection) -> str:
        """The mark that a form must contain: a CSRF token, which other sites cannot know."""
        whose = request.cookies.get(COOKIE, "") if self.user is None else self.who(request) or ""
        return self._sign(b"form", whose.encode(errors="replace"))

    def is_marked(self, request: HTTPConnection, mark: object) -> bool:
        """Whether a form has its mark; a request with the token itself in a header needs none."""
        if self._bears(request):
            return True
        return isinstance(mark, str) and hmac.compare_digest(mark.encode(), self.mark(request).encode())

    def _session_in(self, request: HTTPConnection) -> _BrowserSession | None:
        """The session of a request's cookie; None: there is none, or it has ended."""
        plain = self.opened(b"session", request.cookies.get(COOKIE, ""))
        try:
            session = msgspec.json.decode(plain or b"", type=_BrowserSession)
        except msgspec.DecodeError:  # from another version
            return None
        return session if session.ends > _now() and session.id not in self._ended else None

    def signed(self, purpose: bytes, content: bytes) -> str:
        """A content with its signature, as text; `opened` reads it."""
        return f"{base64.urlsafe_b64encode(content).decode()}.{self._sign(purpose, content)}"

    def opened(self, purpose: bytes, text: str) -> bytes | None:
        """The content of a signed text; None: this page has not signed it for this purpose."""
        content, _, signature = text.partition(".")
        try:
            plain = base64.urlsafe_b64decode(content)
        except ValueError:
            return None
        wanted = self._sign(purpose, plain).encode()
        return plain if hmac.compare_digest(signature.encode(errors="replace"), wanted) else None

    def _sign(self, purpose: bytes, content: bytes) -> str:
        return hmac.new(self._key, purpose + b"\0" + content, hashlib.sha256).hexdigest()


def _now() -> float:
    return datetime.now(UTC).timestamp()  # noqa: TID251 - of a login, not of a message
