"""Spark's daemon for Python, which has imported what its workers import: each of them is a fork of it.

With Spark's own each imports it again, since a fork lacks the threads that an import started; none is missed.
"""

from __future__ import annotations

import sys
from importlib import import_module

from pyspark import daemon

if __name__ == "__main__":
    for module in ("rq_dlq.spark", "rq_dlq.client.broker", *sys.argv[1:]):
        import_module(module)
    daemon.manager()
