"""The names that `rq_dlq` offers.

The package imports this module when a name is first used, so the command's entry, `__main__`, runs at once
and can catch Ctrl-C while the rest is imported. lark, the embedded server and the modules of commands are
imported when they are first used; `_redis` says when redis-py is.
"""

from rq_dlq.client.broker import Broker
from rq_dlq.client.delivery import Delivery
from rq_dlq.client.gather import Gather, GatheredTask
from rq_dlq.client.plan import Plan
from rq_dlq.client.queue import Queue
from rq_dlq.client.redrive import RedriveJob
from rq_dlq.client.results import SentForResult
from rq_dlq.client.selection import Selection
from rq_dlq.client.session import Session
from rq_dlq.client.settings import BrokerSettings
from rq_dlq.client.task import Task
from rq_dlq.core.looking.audit_record import AuditRecord
from rq_dlq.core.redrive.record import RedriveCounts
from rq_dlq.core.schedules.schedule import Schedule
from rq_dlq.errors import (
    BrokerRefused,
    BrokerUnavailable,
    ConfigurationError,
    CrossSlot,
    DataLoss,
    FilterError,
    InvalidDuration,
    InvalidInput,
    InvalidMessage,
    InvalidName,
    KnownId,
    LeaseLost,
    MessageTooLarge,
    MissingRights,
    Poison,
    PolicyError,
    QueueFull,
    Redeliver,
    ResultError,
    ResultUnavailable,
    RqDlqError,
    Unconfirmed,
    UnfitMessage,
    UnprocessableMessage,
    UpgradeRequired,
)
from rq_dlq.policy import (
    Breaker,
    DeadLetterStrategy,
    DiscardingDeadLetterStrategy,
    ExpiryPolicy,
    IndividualDeadLetterStrategy,
    PerKey,
    QueueSettings,
    RedeliveryPolicy,
    SharedDeadLetterStrategy,
)
from rq_dlq.values.cancelled import Cancelled
from rq_dlq.values.changed import CarriedOut, Changed, Refusal
from rq_dlq.values.counts import ErrorGroup, QueueStats
from rq_dlq.values.dependency import DependencyStats
from rq_dlq.values.failure import Cause, Event
from rq_dlq.values.gathered import GatheredChild, GatherStatus
from rq_dlq.values.key import KeyStats
from rq_dlq.values.message import DeadLetter, Message, Received
from rq_dlq.values.names import Naming, Template
from rq_dlq.values.observer import Observer, Sending, Settled
from rq_dlq.values.outcome import Outcome
from rq_dlq.values.process import ConsumerReport, ProcessReport
from rq_dlq.values.sent import Sent
from rq_dlq.values.settlement import Settlement

__all__ = [
    "AuditRecord",
    "Breaker",
    "Broker",
    "BrokerRefused",
    "BrokerSettings",
    "BrokerUnavailable",
    "Cancelled",
    "CarriedOut",
    "Cause",
    "Changed",
    "ConfigurationError",
    "ConsumerReport",
    "CrossSlot",
    "DataLoss",
    "DeadLetter",
    "DeadLetterStrategy",
    "Delivery",
    "DependencyStats",
    "DiscardingDeadLetterStrategy",
    "ErrorGroup",
    "Event",
    "ExpiryPolicy",
    "FilterError",
    "Gather",
    "GatherStatus",
    "GatheredChild",
    "GatheredTask",
    "IndividualDeadLetterStrategy",
    "InvalidDuration",
    "InvalidInput",
    "InvalidMessage",
    "InvalidName",
    "KeyStats",
    "KnownId",
    "LeaseLost",
    "Message",
    "MessageTooLarge",
    "MissingRights",
    "Naming",
    "Observer",
    "Outcome",
    "PerKey",
    "Plan",
    "Poison",
    "PolicyError",
    "ProcessReport",
    "Queue",
    "QueueFull",
    "QueueSettings",
    "QueueStats",
    "Received",
    "Redeliver",
    "RedeliveryPolicy",
    "RedriveCounts",
    "RedriveJob",
    "Refusal",
    "ResultError",
    "ResultUnavailable",
    "RqDlqError",
    "Schedule",
    "Selection",
    "Sending",
    "Sent",
    "SentForResult",
    "Session",
    "Settled",
    "Settlement",
    "SharedDeadLetterStrategy",
    "Task",
    "Template",
    "Unconfirmed",
    "UnfitMessage",
    "UnprocessableMessage",
    "UpgradeRequired",
]
