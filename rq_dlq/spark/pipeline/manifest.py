"""What an archive remembers from run to run: a small JSON text, written by Spark at the end of a run.

There are two, of the last two runs, and a run replaces the older one. So a run that is cut off leaves the
newer one, whatever the file system can do.
"""

from __future__ import annotations

import fcntl
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from rq_dlq.errors import InvalidInput
from rq_dlq.spark.pipeline.archive import there
from rq_dlq.spark.pipeline.settings import LOCAL
from rq_dlq.values.codec import NO_JSON
from rq_dlq.values.durations import shown

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME = "manifest"
KEPT = 2  # manifests


class Kind(msgspec.Struct, frozen=True, order=True):
    """A kind of failure, as in the report on dead letters."""

    queue: str | None
    fingerprint: str | None
    reason: str | None


class Known(msgspec.Struct, frozen=True):
    """A kind, and the run that saw it first."""

    kind: Kind
    first_run: int


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The state of an archive.

    Attributes:
        url: of the server, without its password.
        runs: their number so far.
        last_events: by queue, the id of the last archived event.
        kinds: all kinds seen so far.
    """

    url: str
    namespace: str
    format: str
    runs: int = 0
    last_events: dict[str, str] = {}
    kinds: tuple[Known, ...] = ()

    @classmethod
    def read(cls, spark: SparkSession, folder: str, *, url: str, namespace: str, form: str) -> Manifest:
        """The newest manifest of a directory; if there is none, that of an empty archive.

        Raises:
            InvalidInput: it is damaged, or belongs to another server, namespace or format.
        """
        found = [
            manifest for number in range(KEPT) if (manifest := cls._at(spark, f"{folder}/{NAME}/{number}"))
        ]
        if not found:
            return cls(url=url, namespace=namespace, format=form)
        manifest = max(found, key=attrgetter("runs"))
        for name, asked in (("url", url), ("namespace", namespace), ("format", form)):
            if (has := getattr(manifest, name)) != asked:
                raise InvalidInput(
                    f"{folder} is the archive of {name} {shown(has)}, not {shown(asked)}: pass another "
                    f"directory. If both are the same, change {name} in {folder}/{NAME}"
                )
        return manifest

    @classmethod
    def _at(cls, spark: SparkSession, path: str) -> Manifest | None:
        rows = there(lambda: spark.read.text(path, wholetext=True))
        texts = [row.value for row in rows.collect()] if rows else []
        try:
            return msgspec.json.decode(texts[0], type=cls) if texts else None
        except NO_JSON as error:
            message = f"{path} is damaged ({error}): restore it from a backup, or pass another directory"
            raise InvalidInput(message) from None

    def after(self, last_events: Mapping[str, str], first_runs: Mapping[Kind, int]) -> Manifest:
        """The manifest after one more run."""
        kinds = tuple(Known(kind, run) for kind, run in sorted(first_runs.items(), key=repr))
        events = dict(sorted({**self.last_events, **last_events}.items()))
        return msgspec.structs.replace(self, runs=self.runs + 1, last_events=events, kinds=kinds)

    def write(self, spark: SparkSession, folder: str) -> None:
        """Write it into a directory, in place of the last but one."""
        text = msgspec.json.format(msgspec.json.encode(self)).decode()
        rows = spark.createDataFrame([(text,)], "value string").coalesce(1)
        rows.write.mode("overwrite").text(f"{folder}/{NAME}/{self.runs % KEPT}")

    def first_run(self) -> dict[Kind, int]:
        """The run that saw a kind first, by kind."""
        return {known.kind: known.first_run for known in self.kinds}


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
