"""URLs as text: shown without passwords; a wrong one becomes an error with an example."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rq_dlq.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Generator

_PARAMETER = re.compile(r"([?&;][^=&;]*(?:pass|secret|token|auth|%)[^=&;]*=)[^&]*", re.IGNORECASE)


def masked(url: str) -> str:
    """The URL without its passwords, whatever else is wrong with it."""
    head, at, tail = _PARAMETER.sub(r"\1***", url).rpartition("@")
    if not at and "@" in url:  # a password that looks like a parameter
        return f"{url.partition('://')[0]}://***"
    if not at:
        return tail
    scheme, slashes, account = head.partition("://") if "://" in head else ("", "", head)
    user, colon, _ = account.partition(":")
    return f"{scheme}{slashes}{user + ':' if colon else ''}***@{tail}"


@contextmanager
def readable(url: str) -> Generator[None]:
    """Turn redis-py's errors for a URL that it cannot read into one with an example.

    Raises:
        ConfigurationError: redis-py cannot read the URL.
    """
    try:
        yield
    except (ValueError, TypeError, AttributeError) as error:
        shown = masked(str(url))
        reason = f" ({error})" if shown == str(url) else ""  # the reason may quote a part of the password
        message = (
            f"{shown!r} is not a Redis URL{reason}: use redis://host:6379/0, rediss://…, "
            "unix:///path/redis.sock or redis+sentinel://host1,host2:26379/MASTER/0"
        )
        raise ConfigurationError(message) from None
