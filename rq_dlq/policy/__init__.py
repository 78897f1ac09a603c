"""What becomes of a message, as frozen values: no I/O, no clock.

`redelivery` is the policy of this package, `presets` are those of other brokers, `tenacity` its
bridge.
"""

from rq_dlq.policy.presets import ActiveMQRedelivery, ArtemisRedelivery
from rq_dlq.policy.preview import Preview, Row, Span
from rq_dlq.policy.redelivery import RedeliveryPolicy, Wire

__all__ = [
    "ActiveMQRedelivery",
    "ArtemisRedelivery",
    "Preview",
    "RedeliveryPolicy",
    "Row",
    "Span",
    "Wire",
]
