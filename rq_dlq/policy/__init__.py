"""What becomes of a message, as frozen values: no I/O, no clock.

`redelivery` is the policy, on top of what it is made of: `arithmetic` works out its waits, `presets` do as
other brokers do, `arguments` reads what Redis stores and the settings of other brokers, `tenacity` is a
bridge, `preview` and `simulation` play it through. `dead_letter` and `expiry` say where messages end.
`policy_map` has what is stored of all three for `patterns` of queues, each in an `entry`, and makes
the `settings` of one queue of it.
"""

from rq_dlq.policy.dead_letter import (
    DeadLetterStrategy,
    DiscardingDeadLetterStrategy,
    IndividualDeadLetterStrategy,
    SharedDeadLetterStrategy,
)
from rq_dlq.policy.entry import Entry
from rq_dlq.policy.expiry import ExpiryPolicy
from rq_dlq.policy.patterns import Pattern
from rq_dlq.policy.policy_map import PolicyMap
from rq_dlq.policy.presets import ActiveMQRedelivery, ArtemisRedelivery
from rq_dlq.policy.preview import Preview, Row, Span
from rq_dlq.policy.redelivery import RedeliveryPolicy, Wire
from rq_dlq.policy.settings import Declared, EntryFields, QueueSettings, Source
from rq_dlq.policy.simulation import Simulation
