"""The shipped job: archives outcome histories and dead letters, reports on them, and redrives by rules.

    python -m rq_dlq.spark.pipeline --queue 'orders*' --out archive

`run` has the steps in order, `settings` their settings. `source` reads the queues, `archive` writes Parquet
or Delta, `manifest` is what the job remembers from run to run. `tables` are the reports. `rules` choose the
dead letters to redrive, and `redrive` does it. `show` prints the result.
"""

from rq_dlq.spark.pipeline.rules import Rule, read_rules
from rq_dlq.spark.pipeline.run import Summary, run
from rq_dlq.spark.pipeline.settings import PipelineSettings

__all__ = ["PipelineSettings", "Rule", "Summary", "read_rules", "run"]
