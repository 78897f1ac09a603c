"""The broker of a Python process of Spark. Each process makes its own; none is sent to another process."""

from __future__ import annotations

import gc
import os
import re
import socket
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from pyspark import TaskContext

from rq_dlq._redis import Retries
from rq_dlq.client.broker import Broker
from rq_dlq.client.settings import known_url
from rq_dlq.embedded import ensure
from rq_dlq.errors import ConfigurationError

PATIENCE = Retries(attempts=None, seconds=30.0)  # a restart of Redis must not fail a task
USUAL_NAMESPACE = "rq"
# The broker refuses other URLs that begin with unix: they may be a password with a mark that ends it.
_SOCKET = re.compile(r"unix://(?:[^/?#]*@)?(/[^@?#]*)(?:\?.*)?", re.DOTALL)


def broker_at(url: str, namespace: str = USUAL_NAMESPACE, **settings: Any) -> Broker:
    """The broker of this process for a URL. Spark reuses its Python workers, and so their connections.

    Args:
        settings: more of `BrokerSettings`.

    Raises:
        ConfigurationError: a setting is not valid, the URL cannot be read, or is a socket of another machine.
    """
    # The process id keeps a forked worker from sharing a socket with its parent.
    return _made(os.getpid(), url, namespace=namespace, **settings)


@lru_cache(maxsize=8)
def _made(_process: int, url: str, **settings: Any) -> Broker:
    _check_socket(url)
    if TaskContext.get() is not None:
        # Spark's workers collect garbage after each task, which costs 60 ms of CPU for all the modules that
        # are loaded by now. So the collector no longer looks at them.
        gc.freeze()
    return Broker(url, **settings, retries=PATIENCE)


def _check_socket(url: str) -> None:
    """Fail immediately on another machine's executor. A server that restarts leaves its folder in place."""
    found = _SOCKET.fullmatch(url)
    if found and not (folder := Path(unquote(found[1])).parent).is_dir():
        raise ConfigurationError(
            f"{socket.gethostname()} has no folder {folder}: a socket, such as that of the embedded server, "
            "works only on its own machine. Use a Redis that all executors can reach: option url, or "
            "$RQ_DLQ_URL"
        )


def resolve(url: str | None) -> str:
    """The URL of Redis: the given one, $RQ_DLQ_URL, or the embedded server's. For the driver only.

    Raises:
        ConfigurationError: the URL is empty, or no server can be started.
    """
    return known_url(url) or ensure().url
