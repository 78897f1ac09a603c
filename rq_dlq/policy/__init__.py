"""The policies of queues as frozen values, without I/O and without a clock.

`redelivery` is the redelivery policy. Other modules are its parts: `arithmetic` computes its waits, `presets`
computes them as other brokers do, `arguments` reads what Redis stores and the settings of other brokers,
`tenacity` is a bridge to that library, `preview` and `simulation` show a policy at work. `dead_letter` and
`expiry` say where messages end, `per_key` how messages with the same key are delivered, `breaker` when a
dependency counts as down. `policy_map` holds the stored policies, with an `entry` for each of the `patterns`
of queue names, and computes the `settings` of a queue from them.
"""

from rq_dlq.policy.breaker import Breaker
from rq_dlq.policy.dead_letter import (
    DeadLetterStrategy,
    DiscardingDeadLetterStrategy,
    IndividualDeadLetterStrategy,
    SharedDeadLetterStrategy,
)
from rq_dlq.policy.entry import Entry
from rq_dlq.policy.expiry import ExpiryPolicy
from rq_dlq.policy.patterns import Pattern
from rq_dlq.policy.per_key import PerKey
from rq_dlq.policy.policy_map import PolicyMap
from rq_dlq.policy.presets import ActiveMQRedelivery, ArtemisRedelivery
from rq_dlq.policy.preview import Preview, Row, Span
from rq_dlq.policy.redelivery import RedeliveryPolicy, Wire
from rq_dlq.policy.settings import Declared, EntryFields, QueueSettings, Source
from rq_dlq.policy.simulation import Simulation
