"""Calls that are cut short."""

from __future__ import annotations

import subprocess
import sys

PROFILED = """
import sys, threading, time
from rq_dlq.client.handlers import Handler
from rq_dlq.worker.running import Running
from rq_dlq.worker.stopping import HandlerTimeout

began = threading.Event()

class Delivery:
    body = "x"

def handle(body):
    began.set()
    end = time.monotonic() + 60
    while time.monotonic() < end:
        pass

def cut():
    began.wait()
    calls.cut_short(delivery, HandlerTimeout)

delivery = Delivery()
calls = Running(Handler(None, handle, 1, None, is_async=False, takes_delivery=False))
threading.Thread(target=cut).start()
assert isinstance(calls.run(delivery), HandlerTimeout)
sys.setprofile(lambda frame, event, arg: None)
print(sum(map(lambda number: number, range(1000))))
"""


def test_a_call_that_was_cut_short_leaves_nothing_behind() -> None:
    """CPython 3.11 keeps a request for an error that is withdrawn, and hangs as soon as a profiler runs."""
    run = subprocess.run(
        [sys.executable, "-c", PROFILED], capture_output=True, text=True, timeout=120, check=False
    )
    assert (run.stdout, run.stderr) == ("499500\n", "")
