"""Message ids."""

from __future__ import annotations

import sys
from collections import deque
from itertools import islice

from rq_dlq.values.codec import Ids


def test_no_thread_can_interrupt_another_one_that_draws() -> None:
    """No Python code runs in between, not even where a digit is added."""
    drawn, events = Ids().drawn(), set[str]()
    deque(islice(drawn, 62**3 - 1), maxlen=0)
    sys.setprofile(lambda _frame, event, _arg: events.add(event))
    try:
        last, first = next(drawn), next(drawn)
    finally:
        sys.setprofile(None)
    assert "call" not in events
    assert (len(last), len(first)) == (12, 13)
