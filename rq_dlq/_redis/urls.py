"""URLs as text: shown without passwords; a wrong one becomes an error with an example."""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager

from rq_dlq.errors import ConfigurationError

# A parameter with a secret, up to one that is known to have none, since the secret may have an unescaped "&".
_KNOWN = r"db|protocol|client_name|\w+_(?:timeout|interval)|ssl_\w+"
_PARAMETER = re.compile(
    rf"([?&;][^=&;]*(?:pass|secret|token|auth|%)[^=&;]*=)(?:(?!&(?:{_KNOWN})=).)*", re.IGNORECASE | re.DOTALL
)


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


_BARE = re.compile(r"/|[\w.-]+(:\d+)?(/\d+)?$")  # a path, or a host
_SCHEMES = ("redis://", "rediss://", "unix://", "redis+sentinel://", "rediss+sentinel://")


def check_scheme(url: str) -> None:
    """Check that a URL begins as one of Redis does.

    Raises:
        ConfigurationError: it does not; the text has no password of it.
    """
    if not url.startswith(_SCHEMES):
        raise ConfigurationError(_refusal(url, "it does not begin with redis://"))


def _refusal(url: str, reason: object) -> str:
    shown = masked(url)
    guess = f"{'unix' if url.startswith('/') else 'redis'}://{url}, "
    return (
        f"{shown!r} is not a Redis URL ({reason}): use {guess if shown == url and _BARE.match(url) else ''}"
        "redis://host:6379/0, rediss://…, unix:///path/redis.sock or "
        "redis+sentinel://host1,host2:26379/MASTER/0"
    )


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
        # With a password the error is not shown, since it may quote a part of it.
        reason = error if shown == str(url) else "in a password write / ? # & @ as %2F %3F %23 %26 %40"
        raise ConfigurationError(_refusal(str(url), reason)) from None
