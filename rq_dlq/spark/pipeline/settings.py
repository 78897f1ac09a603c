"""What a run may be told."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rq_dlq.durations import shown
from rq_dlq.errors import InvalidInput
from rq_dlq.policy import RedeliveryPolicy
from rq_dlq.spark.brokers import USUAL_NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from rq_dlq.spark.pipeline.rules import Rule

FORMATS: Final = ("parquet", "delta")
COMPARED: Final = {f"{n} redeliveries": RedeliveryPolicy(max_redeliveries=n) for n in (0, 2, 5, 12)}


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineSettings:
    """What one run does.

    Attributes:
        queue: a name, several with commas between them, or patterns with `*`.
        out: a directory that the driver and all executors see under this name.
        url: where Redis is; None: $RQ_DLQ_URL, else the embedded server.
        namespace: what all keys begin with.
        format: of the archive, parquet or delta; the tables are always Parquet.
        since: the reports leave out what happened before; the archive gets everything. None: all.
        rules: which dead letters are redriven, the first that fits.
        apply: do it; False: say what would be done.
        trim: drop the outcome history from Redis as far as it is in the archive.
        plot: draw the report on dead letters.
        policies: for the table what_if, by a name.
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
        """Check what can be checked.

        Raises:
            InvalidInput: a value makes no sense.
        """
        if self.format not in FORMATS:
            message = f"format is {shown(self.format)}. Pass one of {', '.join(FORMATS)}"
            raise InvalidInput(message)
        if ":/" in str(self.out):  # of which pathlib makes one slash
            message = (
                f"out is {shown(str(self.out))}. Pass a directory that is mounted on all machines, no URL"
            )
            raise InvalidInput(message)
        if self.since is not None and self.since.tzinfo is None:
            message = f"since {shown(self.since)}: pass a datetime with a time zone"
            raise InvalidInput(message)
        object.__setattr__(self, "out", Path(self.out).absolute())
