"""For tests of programs that use queues: a broker whose clock is moved by hand. See docs/testing.md."""

from rq_dlq.testing.broker import TestBroker
from rq_dlq.testing.faults import Faults

__all__ = ["Faults", "TestBroker"]
