"""Redelivery done right, on Redis. No relation to the library RQ."""

from rq_dlq.broker import Broker
from rq_dlq.errors import (
    BrokerRefused,
    BrokerUnavailable,
    ConfigurationError,
    InvalidDuration,
    InvalidInput,
    InvalidMessage,
    InvalidName,
    LeaseLost,
    MessageTooLarge,
    Poison,
    PolicyError,
    Redeliver,
    RqDlqError,
    UnprocessableMessage,
)
from rq_dlq.failure import Cause, Event
from rq_dlq.message import DeadLetter, ErrorGroup, Message, QueueStats, Received, Settlement
from rq_dlq.policy import RedeliveryPolicy
from rq_dlq.queue import Delivery, Queue
from rq_dlq.settings import BrokerSettings

__version__ = "0.1.0"

__all__ = [
    "Broker",
    "BrokerRefused",
    "BrokerSettings",
    "BrokerUnavailable",
    "Cause",
    "ConfigurationError",
    "DeadLetter",
    "Delivery",
    "ErrorGroup",
    "Event",
    "InvalidDuration",
    "InvalidInput",
    "InvalidMessage",
    "InvalidName",
    "LeaseLost",
    "Message",
    "MessageTooLarge",
    "Poison",
    "PolicyError",
    "Queue",
    "QueueStats",
    "Received",
    "Redeliver",
    "RedeliveryPolicy",
    "RqDlqError",
    "Settlement",
    "UnprocessableMessage",
]
