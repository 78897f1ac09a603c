"""What an archive remembers from run to run: a small JSON text, written by Spark at the end of a run.

There are two, of the last two runs, and a run replaces the older one. So a run that is cut off leaves the
newer one, whatever the file system can do.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from typing import TYPE_CHECKING

import msgspec

from rq_dlq.errors import InvalidInput
from rq_dlq.spark.archive.store import there
from rq_dlq.values.codec import NO_JSON
from rq_dlq.values.durations import shown

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME = "manifest"
KEPT = 2  # manifests


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The state of an archive.

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

    @classmethod
    def read(cls, spark: SparkSession, folder: str, *, url: str, namespace: str, form: str) -> Manifest:
        """The newest manifest of a directory; if there is none, an empty archive's.

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

    def after(self, last_events: Mapping[str, str]) -> Manifest:
        """The manifest after one more run."""
        events = dict(sorted({**self.last_events, **last_events}.items()))
        return msgspec.structs.replace(self, runs=self.runs + 1, last_events=events)

    def write(self, spark: SparkSession, folder: str) -> None:
        """Write it into a directory, in place of the last but one."""
        text = msgspec.json.format(msgspec.json.encode(self)).decode()
        rows = spark.createDataFrame([(text,)], "value string").coalesce(1)
        rows.write.mode("overwrite").text(f"{folder}/{NAME}/{self.runs % KEPT}")
