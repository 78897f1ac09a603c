"""The settings of a run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rq_dlq.errors import InvalidInput
from rq_dlq.policy import RedeliveryPolicy
from rq_dlq.spark.brokers import USUAL_NAMESPACE
from rq_dlq.values.durations import shown

if TYPE_CHECKING:
    from rq_dlq.spark.pipeline.rules import Rule

LOCAL: Final = "file://"
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")  # Spark's URLs may have one slash: dbfs:/mnt
FORMATS: Final = ("parquet", "delta")
COMPARED: Final = {f"{n} redeliveries": RedeliveryPolicy(max_redeliveries=n) for n in (0, 2, 5, 12)}


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineSettings:
    """The settings of one run.

    Attributes:
        queue: a name, several separated by commas, or patterns with `*`.
        out: where everything goes: a URL of any file system that Spark can write to, or a directory that the
            driver and all executors can reach by this name.
        url: where Redis is; None: $RQ_DLQ_URL, else the embedded server.
        namespace: the prefix of all keys.
        format: of the archive, parquet or delta; the tables are always Parquet.
        since: the reports leave out earlier events; the archive gets all. None: the reports have all, too.
        rules: choose the dead letters to redrive; the first that matches applies.
        apply: redrive them; False: only report what would be redriven.
        trim: drop archived events from Redis.
        policies: for the table what_if, by name.
    """

    queue: str
    out: str | Path
    url: str | None = field(default=None, repr=False)
    namespace: str = USUAL_NAMESPACE
    format: str = "parquet"
    since: datetime | None = None
    rules: tuple[Rule, ...] = ()
    apply: bool = False
    trim: bool = False
    policies: Mapping[str, RedeliveryPolicy] = field(default_factory=lambda: COMPARED)

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            InvalidInput: a value is not valid.
        """
        if self.format not in FORMATS:
            raise InvalidInput(f"format is {shown(self.format)}. Pass one of {', '.join(FORMATS)}")
        if self.since is not None and self.since.tzinfo is None:
            raise InvalidInput(f"since {shown(self.since)}: pass a datetime with a time zone")
        if isinstance(self.out, Path) and _URL.match(str(self.out)):  # pathlib makes one slash of two
            raise InvalidInput(f"out is {shown(str(self.out))}. Pass a URL as text, not as a path")

    @property
    def folder(self) -> str:
        """The URL of `out`."""
        out = str(self.out)
        if not _URL.match(out):
            return f"{LOCAL}{Path(out).absolute()}"
        return re.sub(r"^file:/(?!/)", f"{LOCAL}/", out).rstrip("/")
