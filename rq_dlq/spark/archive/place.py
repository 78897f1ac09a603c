"""Where an archive lies, the lock of its directory, and what it remembers from run to run."""

from __future__ import annotations

import fcntl
import re
from collections.abc import Callable, Generator
from contextlib import contextmanager
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
from pyspark.errors import AnalysisException

from rq_dlq.errors import InvalidInput
from rq_dlq.values.codec import NO_JSON
from rq_dlq.values.durations import shown

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LOCAL: Final = "file://"
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")  # Spark's URLs may have one slash: dbfs:/mnt
_MISSING = (
    "PATH_NOT_FOUND",
    "DELTA_PATH_DOES_NOT_EXIST",
    "DELTA_TABLE_NOT_FOUND",
    "DELTA_MISSING_DELTA_TABLE",
)
_MANIFESTS = 2


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


def there(load: Callable[[], DataFrame]) -> DataFrame | None:
    """The content that Spark loads from a path; None: the path does not exist."""
    try:
        rows = load()
        rows.schema  # noqa: B018 - Spark Connect looks only now
    except AnalysisException as error:
        if error.getCondition() not in _MISSING:
            raise
        return None
    return rows


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What an archive remembers: a small JSON text, written by Spark at the end of a run.

    There are two, of the last two runs, and a run replaces the older one. So a run that is cut off leaves the
    newer one, whatever the file system can do.

    Attributes:
        url: of the server, without its password.
        runs: their number so far.
        last_events: by queue, the id of the last archived event.
    """

    url: str
    namespace: str
    format: str
    runs: int = 0
    last_events: dict[str, str] = {}

    def newest(self, spark: SparkSession, folder: str) -> Manifest:
        """The newest manifest of a place; if there is none, this one, of an empty archive.

        Raises:
            InvalidInput: it is damaged, or belongs to another server, namespace or format.
        """
        found = (_read(spark, f"{folder}/manifest/{number}") for number in range(_MANIFESTS))
        newest = max(filter(None, found), key=attrgetter("runs"), default=self)
        for name in ("url", "namespace", "format"):
            if (has := getattr(newest, name)) != (asked := getattr(self, name)):
                raise InvalidInput(
                    f"{folder} is the archive of {name} {shown(has)}, not {shown(asked)}: pass another "
                    f"directory. If both are the same, change {name} in {folder}/manifest"
                )
        return newest

    def write_next(self, spark: SparkSession, folder: str, last_events: dict[str, str]) -> None:
        """Write the manifest after one more run, in place of the last but one."""
        after = msgspec.structs.replace(self, runs=self.runs + 1, last_events=self.last_events | last_events)
        text = msgspec.json.format(msgspec.json.encode(after, order="deterministic")).decode()
        rows = spark.createDataFrame([(text,)], "value string").coalesce(1)
        rows.write.mode("overwrite").text(f"{folder}/manifest/{after.runs % _MANIFESTS}")


def _read(spark: SparkSession, path: str) -> Manifest | None:
    rows = there(lambda: spark.read.text(path, wholetext=True))
    try:
        for row in rows.collect() if rows else []:
            return msgspec.json.decode(row.value, type=Manifest)
    except NO_JSON as error:
        message = f"{path} is damaged ({error}): restore it from a backup, or pass another directory"
        raise InvalidInput(message) from None
    return None
