"""Checks whether a server is suitable for queues, and which data it may lose; gives advice.

A check is a value. `rq-dlq doctor` prints all checks; workers and maintenance repeat those whose result can
change while a server runs.

`vitals` are what a process notes about itself, for probes that ask whether it is alive and ready.

What a broker checks itself, before it sends with durability "fsync" or "replicated", is `_redis/guard.py`.
"""

from rq_dlq.doctor.check import Check, State
from rq_dlq.doctor.examine import examine
from rq_dlq.doctor.watch import Watch

__all__ = ["Check", "State", "Watch", "examine"]
