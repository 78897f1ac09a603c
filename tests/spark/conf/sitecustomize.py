"""What Spark's Python daemon imports once, before it forks: each worker would do so anew, for a second."""

from __future__ import annotations

import os
import sys
from importlib import import_module

if "pyspark.daemon" in sys.orig_argv:
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # forks, so nothing may start threads
    import_module(sys.orig_argv[-1])  # what the workers run
    import_module("rq_dlq.spark.views")
