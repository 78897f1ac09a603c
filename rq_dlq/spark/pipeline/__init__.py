"""The shipped job: archive what happened, report it, bring back by rules what is worth another try.

    python -m rq_dlq.spark.pipeline --queue 'orders*' --out archive

`run` is its steps in order, `settings` what it may be told. `source` reads the queues, `archive` is Parquet
or Delta, `manifest` what it remembers from run to run; `tables` are the reports, `picture` shows one. `rules`
say which dead letters are redriven, `redrive` does it and keeps a `ledger`. `stages` and `show` are what one
sees.
"""

from rq_dlq.spark.pipeline.rules import Rule, read_rules
from rq_dlq.spark.pipeline.run import Summary, run
from rq_dlq.spark.pipeline.settings import PipelineSettings

__all__ = ["PipelineSettings", "Rule", "Summary", "read_rules", "run"]
