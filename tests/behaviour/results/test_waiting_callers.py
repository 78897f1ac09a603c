"""What callers that wait for results are told when a poll fails."""

from __future__ import annotations

import pytest

from rq_dlq import BrokerRefused, BrokerUnavailable
from rq_dlq._keys import QueueKeys
from rq_dlq._redis.waiting import Waiting
from rq_dlq.core.results.calls import Meant
from rq_dlq.core.steps.replies import Word
from tests.tables import each_row

MEANT = Meant("m", 0)
NO_END = Word.UNKNOWN
FAILURES = [BrokerUnavailable("the server is away"), BrokerRefused("not allowed")]


@each_row("failure", FAILURES)
def test_who_waits_is_told_of_a_failed_poll(failure: Exception) -> None:
    """Unless a later poll succeeds; the callers of another queue are not."""
    waiting, keys, other = Waiting(), QueueKeys("rq", "a"), QueueKeys("rq", "b")
    place, another = waiting.add(keys, MEANT), waiting.add(other, MEANT)
    looking = waiting.look(every=True)
    looking.send(None)
    looking.throw(failure)  # it goes on with the other queue
    with pytest.raises(StopIteration):
        looking.send([NO_END])
    with pytest.raises(type(failure), match=str(failure)):
        waiting.remove(keys, MEANT, place.future)
    assert waiting.remove(other, MEANT, another.future) == NO_END
