"""Watches the files of an app, for `rq-dlq worker --watch`."""

from __future__ import annotations

import os
import threading
from collections.abc import Generator
from contextlib import contextmanager
from queue import SimpleQueue

from rq_dlq.cli._extras import of_extra


@contextmanager
def watching(directory: str | None) -> Generator[SimpleQueue[str]]:
    """A queue that receives the name of a changed Python file whenever files in the directory change.

    Raises:
        ConfigurationError: watchfiles is not installed.
    """
    changes: SimpleQueue[str] = SimpleQueue()
    if directory is None:
        yield changes
        return
    with of_extra("watch", "--watch"):
        from watchfiles import PythonFilter, watch  # noqa: PLC0415
    end = threading.Event()

    def put() -> None:
        for changed in watch(directory, watch_filter=PythonFilter(), stop_event=end):
            changes.put(os.path.normpath(min(path for _, path in changed)))

    threading.Thread(target=put, daemon=True).start()
    try:
        yield changes
    finally:
        end.set()
