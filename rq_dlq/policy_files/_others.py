"""Settings of other brokers without a field here, with the reason: not needed, or no counterpart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from rq_dlq.policy_files._reading import Conversion

Reasons: TypeAlias = "Mapping[str, tuple[Conversion, str]]"
"""By a setting's name: its outcome, and the reason."""


def _reasons(*rows: tuple[Conversion, str, str]) -> Reasons:
    """Make it from rows of an outcome, a reason, and the settings that both apply to."""
    return {name: (outcome, reason) for outcome, reason, names in rows for name in names.split()}


NO_TOPICS: Final = "there are only queues, no topics"
IDS: Final = "a queue ignores an id that it already has"
AUDIT: Final = (
    "a queue ignores an id while it has the message, even as a dead letter; then the id is free again, or "
    "after an ack when the dedup_window of its policy has passed"
)
NO_AUDIT: Final = "a queue never has an id twice, so a second message with the same id is ignored here"
KNOWN_IDS: Final = (
    "a queue remembers the ids of all its messages exactly, and after an ack for the dedup_window of its "
    "policy, which is not set by default: `rq-dlq policy set '#' --dedup-window 10m`"
)
COUNTED: Final = "the count is always in Redis before a consumer sees the message"
INDEXED: Final = "no scan is needed: an index has the next expiry, and clients and workers check it"
GROUPS: Final = (
    "a group is a key: send(…, key=…) and per_key=PerKey(order=True); for an exclusive consumer give all "
    "messages one key"
)
EMPTY: Final = "an empty queue is only a few counters, which can stay"
CLAIMED: Final = "each claim specifies how many messages it takes"
MEMORY: Final = (
    "all queues share the memory of Redis, which maxmemory limits (with noeviction; a full Redis refuses new "
    "messages, and drains)"
)

ARTEMIS: Final = _reasons(
    ("not needed", "a message is sent to a queue, which exists once it is named: it always has a route",
     "send-to-dla-on-no-route"),
    ("no counterpart", f"nothing is paged: {MEMORY}",
     """max-size-bytes max-size-messages max-size-bytes-reject-threshold address-full-policy
     disk-full-policy page-full-policy page-size-bytes page-max-cache-size page-limit-bytes
     page-limit-messages      max-read-page-messages max-read-page-bytes prefetch-page-messages
     prefetch-page-bytes"""),
    ("not needed", "a queue exists as soon as it is named",
     "auto-create-queues auto-create-addresses auto-create-jms-queues auto-create-jms-topics"),
    ("not needed", EMPTY,
     """auto-delete-queues auto-delete-created-queues auto-delete-queues-delay
     auto-delete-queues-message-count auto-delete-queues-skip-usage-check auto-delete-addresses
     auto-delete-addresses-delay auto-delete-addresses-skip-usage-check auto-delete-jms-queues
     auto-delete-jms-topics config-delete-queues      config-delete-addresses config-delete-diverts"""),
    ("no counterpart", f"a later message never replaces an earlier one; {IDS}",
     "last-value-queue default-last-value-queue default-last-value-key"),
    ("no counterpart", "new messages never push out old ones", "default-ring-size"),
    ("no counterpart", "an acked message is removed; `rq-dlq peek` and browse() read without claiming",
     "default-non-destructive"),
    ("no counterpart", GROUPS,
     """default-exclusive-queue default-group-rebalance default-group-rebalance-pause-dispatch
     default-group-buckets default-group-first-key"""),
    ("no counterpart",
     "consumers claim, and a queue does not track how many there are; `rq-dlq queue pause` stops deliveries",
     """default-consumers-before-dispatch default-delay-before-dispatch default-max-consumers
     default-purge-on-no-consumers"""),
    ("not needed", CLAIMED, "default-consumer-window-size"),
    ("no counterpart", "there are only queues, no addresses that copy messages to several queues",
     "default-queue-routing-type default-address-routing-type retroactive-message-count"),
    ("not needed", "all consumers of a queue use the same Redis", "redistribution-delay"),
    ("no counterpart", "a slow consumer keeps only its claimed messages, until its lease expires",
     """slow-consumer-threshold slow-consumer-threshold-measurement-unit slow-consumer-policy
     slow-consumer-check-period"""),
    ("not needed", "counts are always kept, and read with `rq-dlq queue ls`",
     """message-counter-history-day-limit enable-metrics management-browse-page-size
     management-message-attribute-size-limit"""),
    ("not needed", "each message has enqueued_at", "enable-ingress-timestamp"),
    ("no counterpart", KNOWN_IDS, "id-cache-size"),
    ("not needed", "Redis grows automatically", "initial-queue-buffer-size"),
)  # fmt: skip
"""Settings of an address-setting."""

ARTEMIS_CORE: Final = _reasons(
    ("not needed", INDEXED, "message-expiry-scan-period message-expiry-thread-priority"),
    ("not needed", COUNTED, "persist-delivery-count-before-delivery max-redelivery-records"),
    ("not needed", "queues are not deleted automatically", "address-queue-scan-period"),
    ("not needed", "a queue exists as soon as it is named", "addresses"),
    ("no counterpart", KNOWN_IDS, "id-cache-size persist-id-cache"),
    ("not needed", "patterns select policies; messages are sent to queues by their full name",
     "wild-card-routing-enabled"),
)  # fmt: skip
"""Settings of the whole broker for redelivery, dead letters and expiry."""

CLASSIC: Final = _reasons(
    ("not needed", INDEXED, "expireMessagesPeriod maxExpirePageSize"),
    ("not needed", COUNTED, "persistJMSRedelivered"),
    ("not needed", IDS, "sendDuplicateFromStoreToDLQ"),
    ("not needed", AUDIT, "enableAudit maxProducersToAudit maxAuditDepth maxQueueAuditDepth"),
    ("not needed", "this is always the order: by priority, then due time, then the order of sending",
     "prioritizedMessages strictOrderDispatch"),
    ("not needed", CLAIMED, "queuePrefetch queueBrowserPrefetch usePrefetchExtension"),
    ("not needed", "every script has its own limit", "maxPageSize maxBrowsePageSize"),
    ("not needed", EMPTY,
     "gcInactiveDestinations inactiveTimeoutBeforeGC inactiveTimoutBeforeGC gcWithNetworkConsumers"),
    ("no counterpart", MEMORY,
     """memoryLimit storeUsageHighWaterMark cursorMemoryHighWaterMark producerFlowControl
     blockedProducerWarningInterval sendFailIfNoSpace sendFailIfNoSpaceAfterTimeout useCache
     reduceMemoryFootprint minimumMessageSize doOptimzeMessageStorage optimizeMessageStoreInFlightLimit
     pendingQueuePolicy maxDestinations"""),
    ("no counterpart",
     "consumers claim, and a queue does not choose between them; a policy can limit them all together",
     """consumersBeforeDispatchStarts timeBeforeDispatchStarts lazyDispatch optimizedDispatch
     useConsumerPriority dispatchPolicy slowConsumerStrategy"""),
    ("no counterpart", GROUPS,
     "allConsumersExclusiveByDefault messageGroupMapFactory messageGroupMapFactoryType"),
    ("no counterpart", "there are no advisory messages: `queue ls` shows the counts, outcomes() the events",
     """advisoryForSlowConsumers advisoryForDiscardingMessages advisoryWhenFull advisoryForDelivery
     advisoryForConsumed advisoryForDispatched advisoryForFastProducers includeBodyForAdvisory
     sendAdvisoryIfNoConsumers advancedNetworkStatisticsEnabled advancedMessageStatisticsEnabled
     useTopicSubscriptionInflightStats"""),
    ("no counterpart", NO_TOPICS,
     """topicPrefetch durableTopicPrefetch alwaysRetroactive pendingSubscriberPolicy
     pendingDurableSubscriberPolicy subscriptionRecoveryPolicy pendingMessageLimitStrategy
     messageEvictionStrategy"""),
    ("no counterpart", "there is one Redis, no network of brokers", "networkBridgeFilterFactory"),
    ("no counterpart", "a sender writes directly to its queue",
     "messageInterceptorStrategy allowTempDestinationStealing"),
)  # fmt: skip
"""Attributes and elements of a policyEntry."""

CLASSIC_STRATEGY: Final = _reasons(
    ("not needed", AUDIT, "enableAudit maxProducersToAudit maxAuditDepth maxDestinationsToAudit"),
    ("no counterpart", NO_TOPICS,
     "topicPrefix topicSuffix useQueueForTopicMessages destinationPerDurableSubscriber"),
    ("no counterpart", "dead letters are always in a queue", "useQueueForQueueMessages"),
)  # fmt: skip
"""Attributes of a dead-letter strategy."""

CLASSIC_REDELIVERY: Final = _reasons(
    ("not needed", "a message without redeliveries left never reaches a handler", "preDispatchCheck"),
)
"""Attributes of a redeliveryPolicy."""

CLASSIC_TIMES: Final = _reasons(
    ("not needed", "only the clock of Redis counts, at the moment of sending",
     "futureOnly processNetworkMessages"),
)  # fmt: skip
"""Attributes of the timeStampingBrokerPlugin."""
