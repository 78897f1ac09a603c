"""The policies of queues as frozen values, without I/O and without a clock.

`redelivery` is the redelivery policy. Other modules are its parts: `arithmetic` computes its waits, `presets`
computes them as other brokers do, `arguments` reads what Redis stores and the settings of other brokers,
`tenacity` is a bridge to that library, `preview` and `simulation` show a policy at work. `dead_letter` and
`expiry` say where messages end, `per_key` how messages with the same key are delivered, `breaker` when a
dependency counts as down. `policy_map` holds the stored policies, with an `entry` for each of the `patterns`
of queue names, and computes the `settings` of a queue from them.

`fields` has a row for each field of an entry: its name, the checks for user input and for its text in Redis,
its default, the word for None, its option and help text, and the settings of Artemis and Classic that set
exactly this field. Entries, the map, TOML, the import of other brokers' files, the command line and
`configure` read this table. Settings that depend on each other (where dead letters go) remain code. Type
checkers need literal types, so `settings` lists them again; `tests/policy/test_fields.py` compares them, the
classes and `lua/README.md` with the table. `readable` turns fields in Redis into words, for the page and for
the command line.

- Our formula is `base + base * (f * r)`, in the order of operations of both brokers' sources. `base * (1 + f
  * r)` gives 5,004 in a case that demands 5,005.
- The presets of Artemis and ActiveMQ Classic follow those systems to the bit, also where our own arithmetic
  deliberately differs (spread that vanishes at the cap, spread that compounds). A preset is an arithmetic
  inside a policy, not a subclass, so `RedeliveryPolicy.artemis(…)` can be a class method.
- A RedeliveryPolicy in an entry sets all its fields, a mapping only those that it has.
- `no_expiry` overrides the sender's ttl, as in Artemis. `persistent=False` matters only if a strategy has
  `process_non_persistent=False`.
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
