"""Spark's daemon for Python, which has imported what its workers import: each of them is a fork of it.

Spark's own imports it again in each of them, since threads must not be there before a fork: here none are.
"""

from __future__ import annotations

import importlib
import sys
import threading

from pyspark import daemon

if __name__ == "__main__":
    for module in ("pandas", "pyarrow", "rq_dlq.spark", sys.argv[1]):
        importlib.import_module(module)
    assert threading.active_count() == 1
    daemon.manager()
