"""Redelivery done right, on Redis. No relation to the library RQ."""

from rq_dlq._names import Naming, Template
from rq_dlq.broker import Broker
from rq_dlq.delivery import Delivery
from rq_dlq.errors import (
    BrokerRefused,
    BrokerUnavailable,
    ConfigurationError,
    CrossSlot,
    FilterError,
    InvalidDuration,
    InvalidInput,
    InvalidMessage,
    InvalidName,
    LeaseLost,
    MessageTooLarge,
    MissingRights,
    Poison,
    PolicyError,
    Redeliver,
    RqDlqError,
    Unconfirmed,
    UnprocessableMessage,
)
from rq_dlq.failure import Cause, Event
from rq_dlq.message import DeadLetter, ErrorGroup, Message, QueueStats, Received, Settlement
from rq_dlq.outcome import Outcome
from rq_dlq.policy import (
    DeadLetterStrategy,
    DiscardingDeadLetterStrategy,
    ExpiryPolicy,
    IndividualDeadLetterStrategy,
    QueueSettings,
    RedeliveryPolicy,
    SharedDeadLetterStrategy,
)
from rq_dlq.queue import Queue
from rq_dlq.selection import Selection
from rq_dlq.session import Session
from rq_dlq.settings import BrokerSettings

__version__ = "0.1.0"

__all__ = [
    "Broker",
    "BrokerRefused",
    "BrokerSettings",
    "BrokerUnavailable",
    "Cause",
    "ConfigurationError",
    "CrossSlot",
    "DeadLetter",
    "DeadLetterStrategy",
    "Delivery",
    "DiscardingDeadLetterStrategy",
    "ErrorGroup",
    "Event",
    "ExpiryPolicy",
    "FilterError",
    "IndividualDeadLetterStrategy",
    "InvalidDuration",
    "InvalidInput",
    "InvalidMessage",
    "InvalidName",
    "LeaseLost",
    "Message",
    "MessageTooLarge",
    "MissingRights",
    "Naming",
    "Outcome",
    "Poison",
    "PolicyError",
    "Queue",
    "QueueSettings",
    "QueueStats",
    "Received",
    "Redeliver",
    "RedeliveryPolicy",
    "RqDlqError",
    "Selection",
    "Session",
    "Settlement",
    "SharedDeadLetterStrategy",
    "Template",
    "Unconfirmed",
    "UnprocessableMessage",
]
