"""URLs as text: masking passwords, and errors with examples for invalid URLs."""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from rq_dlq.errors import ConfigurationError

# A parameter that may be secret, up to the next one that is not: a secret may contain an unescaped "&".
_SHOWN = (
    r"db|protocol|client_name|max_connections|retry_on_\w+|(?:socket_|health_check_)?(?:timeout|interval)"
    r"|socket_(?:connect_timeout|read_size|keepalive)|(?:decode|legacy)_responses|(?:sentinel_)?username"
    r"|ssl_(?!password)\w+"
)
_PARAMETER = re.compile(rf"([?&;](?!(?:{_SHOWN})=)[^=&;]*=)(?:(?!&(?:{_SHOWN})=).)*", re.DOTALL)

# Hosts, with or without a port. Any other text after a colon may be a password whose @ is missing.
_PLAIN = re.compile(r"(?>(?:[\w+-]+://)?)(?:\[[\w:.%]*\]|[^:/?#]*)(?::\d+)?(?:[/?#,].*)?", re.DOTALL)


def masked(url: str) -> str:
    """The URL without its passwords, even if the URL is not valid."""
    head, at, tail = _PARAMETER.sub(r"\1***", url).rpartition("@")
    if not at and ("@" in url or not _PLAIN.fullmatch(tail)):  # a password may look like another part
        scheme, slashes, _ = url.partition("://") if "://" in url else ("", "", url)
        return f"{scheme}{slashes}***"
    if not at:
        return tail
    scheme, slashes, account = head.partition("://") if "://" in head else ("", "", head)
    user, colon, _ = account.partition(":")
    return f"{scheme}{slashes}{user + ':' if colon else ''}***@{tail}"


_BARE = re.compile(r"/|[\w.-]+(:\d+)?(/\d+)?$")  # a path, or a host
_SCHEMES = ("redis://", "rediss://", "unix://", "redis+sentinel://", "rediss+sentinel://")
_VALKEY = re.compile(r"valkey(?=s?(?:\+sentinel)?://)")


def as_redis(url: str) -> str:
    """A URL with Valkey's scheme, valkey:// or valkeys://, rewritten for redis-py; others unchanged."""
    return "redis" + url[len("valkey") :] if _VALKEY.match(url) else url


def check_scheme(url: str) -> None:
    """Check that a URL has a scheme of Redis.

    Raises:
        ConfigurationError: it has another scheme; the error shows no password.
    """
    if not as_redis(url).startswith(_SCHEMES):
        raise ConfigurationError(_refusal(url, "it does not begin with redis://"))


def _refusal(url: str, reason: object) -> str:
    shown = masked(url)
    forms = (
        "redis://host:6379/0, rediss://…, unix:///path/redis.sock or "
        "redis+sentinel://host1,host2:26379/MASTER/0"
    )
    if shown == url and _BARE.match(url):
        forms = f"{'unix' if url.startswith('/') else 'redis'}://{url} (the forms are {forms})"
    return f"{shown!r} is not a Redis URL ({reason}): use {forms}"


_DATABASE = re.compile(r"/?[0-9]*/?")
_OBJECT = re.compile(
    r"cache|\w+_(?:class|config|context|dispatcher|factory|func|handler|hash|info|options|packer|provider"
    r"|registry|state|type)"
)
LONGEST_TIMEOUT = 86_400  # seconds; operating systems also have a limit
_MOST = 1 << 31
_RANGES: dict[str, tuple[float, float, str]] = {
    "socket_timeout": (1e-3, LONGEST_TIMEOUT, "seconds, from 0.001 to a day"),
    "socket_connect_timeout": (1e-3, LONGEST_TIMEOUT, "seconds, from 0.001 to a day"),
    "health_check_interval": (0, LONGEST_TIMEOUT, "seconds, from 0 to a day"),
    "max_connections": (1, _MOST, "1 or more"),
    "socket_read_size": (1, _MOST, "bytes, 1 or more"),
    "protocol": (2, 3, "2 or 3"),
    "db": (0, _MOST, "0 or more"),
}
_CERTIFICATES = ("none", "optional", "required")
_INVALID = re.compile(r"Invalid value for '(\w+)'")  # in redis-py's errors, which do not quote the value


class UnusableError(ValueError):
    """A problem with a URL; the text quotes no part that may be secret."""


def check_marks(url: str) -> None:
    """Check that a password contains no special character: redis-py would silently drop what follows it.

    Raises:
        UnusableError: it contains a `#`, a `/` or a `?`.
    """
    before, _, parameters = url.partition("?")
    host, _, path = before.partition("://")[2].partition("/")
    if "#" in url:
        raise UnusableError("write # as %23, in a password and elsewhere")
    if host and "@" in path:
        raise UnusableError("write / in a user or a password as %2F")
    if any("@" in part.partition("=")[0] for part in re.split("[&;]", parameters)):
        raise UnusableError("write ? in a user or a password as %3F")


def check_path(url: str) -> None:
    """Check that the path is a database number; redis-py reads other paths as 0, or drops their slashes.

    Raises:
        ValueError: it is not a number.
    """
    parts = urlsplit(url)
    if parts.scheme != "unix" and not _DATABASE.fullmatch(parts.path):
        raise UnusableError("after the host write / and the number of a database")


def check_host(host: str) -> str:
    """The host, if it can be looked up; with any other host a socket would not raise a network error.

    Raises:
        ValueError: it cannot be looked up.
    """
    try:
        host.encode("idna")
    except UnicodeError:
        raise UnusableError("in its host a part between dots is empty, too long, or not text") from None
    return host


def check_options(given: Mapping[str, Any]) -> None:
    """Check the parameters of a URL as parsed by redis-py, which does not check them.

    Raises:
        ValueError: one of them cannot be used.
    """
    for name, (least, most, allowed) in _RANGES.items():
        if name in given and not least <= given[name] <= most:  # true for nan
            raise UnusableError(f"{name} must be {allowed}")
    for name, value in given.items():
        if name == "ssl_cert_reqs" and value not in _CERTIFICATES:
            raise UnusableError(f"{name} must be {', '.join(_CERTIFICATES[:-1])} or {_CERTIFICATES[-1]}")
        if isinstance(value, str) and _OBJECT.fullmatch(name):
            raise UnusableError(f"{name} cannot be in a URL, since it is not text or a number")


@contextmanager
def readable(url: str) -> Generator[None]:
    """Turn redis-py's errors for an invalid URL into one with an example.

    Raises:
        ConfigurationError: redis-py cannot read the URL.
    """
    try:
        yield
    except (ValueError, TypeError, AttributeError) as error:
        shown = masked(str(url))
        # If a part is masked, redis-py's error is not shown, since it may quote that part.
        if isinstance(error, TypeError):
            reason: object = "connections do not accept one of its parameters"
        elif invalid := _INVALID.match(str(error)):
            reason = f"{invalid[1]} must be {_RANGES.get(invalid[1], ('', '', 'of another type'))[2]}"
        elif shown == str(url) or isinstance(error, UnusableError):
            reason = error
        else:
            reason = "in a password write / ? # & @ as %2F %3F %23 %26 %40"
        raise ConfigurationError(_refusal(str(url), reason)) from None
