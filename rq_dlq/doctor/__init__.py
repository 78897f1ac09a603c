"""Whether a server is fit for queues, what it may lose, and what to do about it.

The checks are values and talk to nobody; `rq-dlq doctor` prints all of them, and workers and maintenance look
now and then at those that can change.
"""

from rq_dlq.doctor.check import Check, State
from rq_dlq.doctor.examine import examine
from rq_dlq.doctor.watch import Watch

__all__ = ["Check", "State", "Watch", "examine"]
