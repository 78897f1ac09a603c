"""The settings of a run."""

from __future__ import annotations

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

FORMATS: Final = ("parquet", "delta")
COMPARED: Final = {f"{n} redeliveries": RedeliveryPolicy(max_redeliveries=n) for n in (0, 2, 5, 12)}


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineSettings:
    """The settings of one run.

    Attributes:
        queue: a name, several separated by commas, or patterns with `*`.
        out: a directory that the driver and all executors can reach by this name.
        url: where Redis is; None: $RQ_DLQ_URL, else the embedded server.
        namespace: the prefix of all keys.
        format: of the archive, parquet or delta; the tables are always Parquet.
        since: the reports leave out earlier events; the archive gets all. None: the reports have all, too.
        rules: choose the dead letters to redrive; the first that matches applies.
        apply: redrive them; False: only report what would be redriven.
        trim: drop archived events from Redis.
        plot: plot the report on dead letters.
        policies: for the table what_if, by name.
    """

    queue: str
    out: Path
    url: str | None = field(default=None, repr=False)
    namespace: str = USUAL_NAMESPACE
    format: str = "parquet"
    since: datetime | None = None
    rules: tuple[Rule, ...] = ()
    apply: bool = False
    trim: bool = False
    plot: bool = True
    policies: Mapping[str, RedeliveryPolicy] = field(default_factory=lambda: COMPARED)

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            InvalidInput: a value is not valid.
        """
        if self.format not in FORMATS:
            raise InvalidInput(f"format is {shown(self.format)}. Pass one of {', '.join(FORMATS)}")
        if ":/" in str(self.out):  # of which pathlib makes one slash
            raise InvalidInput(
                f"out is {shown(str(self.out))}. Pass a directory that is mounted on all machines, not a URL"
            )
        if self.since is not None and self.since.tzinfo is None:
            raise InvalidInput(f"since {shown(self.since)}: pass a datetime with a time zone")
        object.__setattr__(self, "out", Path(self.out).absolute())
