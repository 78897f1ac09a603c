"""The location of an archive: a directory, or a URL of any file system that Spark can write to."""

from __future__ import annotations

import fcntl
import re
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from rq_dlq.errors import InvalidInput
from rq_dlq.values.durations import shown

LOCAL: Final = "file://"
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")  # Spark's URLs may have one slash: dbfs:/mnt


def folder_of(out: str | Path) -> str:
    """The URL of a place.

    Raises:
        InvalidInput: it is a URL that became a path.
    """
    text = str(out)
    if not _URL.match(text):
        return f"{LOCAL}{Path(text).absolute()}"
    if isinstance(out, Path):  # pathlib makes one slash of two
        raise InvalidInput(f"out is {shown(text)}. Pass a URL as text, not as a path")
    return re.sub(r"^file:/(?!/)", f"{LOCAL}/", text).rstrip("/")


@contextmanager
def held(folder: str) -> Generator[None]:
    """Keep other runs out of a local directory, which is created if it is missing; elsewhere do nothing.

    Raises:
        InvalidInput: it cannot be written, or another run uses it.
    """
    if not folder.startswith(LOCAL):
        yield
        return
    path = Path(folder.removeprefix(LOCAL))
    try:
        path.mkdir(parents=True, exist_ok=True)
        lock: Any = (path / ".lock").open("w")
    except OSError as error:
        message = f"{path} cannot be written ({error.strerror}): pass a directory that can"
        raise InvalidInput(message) from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            message = f"another run uses {path}: wait for its end, or pass another directory"
            raise InvalidInput(message) from None
        yield
