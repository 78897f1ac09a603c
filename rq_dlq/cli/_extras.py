"""Optional packages: the extras of `pip install 'rq-dlq[…]'`."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from rq_dlq.errors import ConfigurationError


@contextmanager
def of_extra(extra: str, what: str) -> Generator[None]:
    """Name the extra to install if an import in this block fails.

    Args:
        what: the feature that needs the extra, for the error.

    Raises:
        ConfigurationError: a package of the extra is not installed.
    """
    try:
        yield
    except ImportError as error:
        package = (error.name or "").partition(".")[0]
        if package == "rq_dlq":
            raise
        message = f"{what} needs the package {package}: pip install 'rq-dlq[{extra}]'"
        raise ConfigurationError(message) from None
