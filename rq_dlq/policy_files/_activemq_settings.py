"""ActiveMQ Classic's other settings: why they are not needed here, or have no counterpart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rq_dlq.policy_files._reading import each

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rq_dlq.policy_files._reading import Conversion

NO_TOPICS: Final = "there are queues only, no topics"
AUDIT: Final = (
    "a queue ignores an id while it has the message, also as a dead letter; then the id is free again"
)
DESTINATIONS: Final = ("queue", "topic", "tempQueue", "tempTopic", "destination")

ENTRY: Final[Mapping[str, tuple[Conversion, str]]] = dict(
    [
        *each("expireMessagesPeriod maxExpirePageSize", "not needed",
              "nothing is scanned: an index shows what expires next, and clients and workers check it"),
        *each("persistJMSRedelivered", "not needed",
              "the count is always in Redis before a consumer sees the message"),
        *each("sendDuplicateFromStoreToDLQ", "not needed", "a queue ignores an id that it already has"),
        *each("enableAudit maxProducersToAudit maxAuditDepth maxQueueAuditDepth", "not needed",
              AUDIT),
        *each("prioritizedMessages strictOrderDispatch", "not needed",
              "it is always so: by priority, then due time, then the order of sending"),
        *each("queuePrefetch queueBrowserPrefetch usePrefetchExtension", "not needed",
              "each claim says how many messages it takes"),
        *each("maxPageSize maxBrowsePageSize", "not needed", "every script has its own limit"),
        *each("gcInactiveDestinations inactiveTimeoutBeforeGC inactiveTimoutBeforeGC gcWithNetworkConsumers",
              "not needed", "an empty queue is only a few counters, which may stay"),
        *each("memoryLimit storeUsageHighWaterMark cursorMemoryHighWaterMark producerFlowControl "
              "blockedProducerWarningInterval sendFailIfNoSpace sendFailIfNoSpaceAfterTimeout useCache "
              "reduceMemoryFootprint minimumMessageSize doOptimzeMessageStorage "
              "optimizeMessageStoreInFlightLimit pendingQueuePolicy maxDestinations", "no counterpart",
              "all queues share the memory of Redis, which maxmemory limits (with noeviction; a full Redis "
              "refuses new messages, and drains)"),
        *each("consumersBeforeDispatchStarts timeBeforeDispatchStarts lazyDispatch optimizedDispatch "
              "useConsumerPriority allConsumersExclusiveByDefault dispatchPolicy messageGroupMapFactory "
              "messageGroupMapFactoryType slowConsumerStrategy", "no counterpart",
              "consumers claim, a queue does not choose between them; a policy can limit all together"),
        *each("advisoryForSlowConsumers advisoryForDiscardingMessages advisoryWhenFull advisoryForDelivery "
              "advisoryForConsumed advisoryForDispatched advisoryForFastProducers includeBodyForAdvisory "
              "sendAdvisoryIfNoConsumers advancedNetworkStatisticsEnabled advancedMessageStatisticsEnabled "
              "useTopicSubscriptionInflightStats", "no counterpart",
              "there are no advisory messages; `rq-dlq queue ls` shows the counts"),
        *each("topicPrefetch durableTopicPrefetch alwaysRetroactive pendingSubscriberPolicy "
              "pendingDurableSubscriberPolicy subscriptionRecoveryPolicy pendingMessageLimitStrategy "
              "messageEvictionStrategy", "no counterpart", NO_TOPICS),
        *each("networkBridgeFilterFactory", "no counterpart", "there is one Redis, no network of brokers"),
        *each("messageInterceptorStrategy allowTempDestinationStealing", "no counterpart",
              "there is nothing between a sender and its queue"),
    ]
)  # fmt: skip
"""By attribute or element of a policyEntry."""

STRATEGY: Final[Mapping[str, tuple[Conversion, str]]] = dict(
    [
        *each("enableAudit maxProducersToAudit maxAuditDepth maxDestinationsToAudit", "not needed", AUDIT),
        *each("topicPrefix topicSuffix useQueueForTopicMessages destinationPerDurableSubscriber",
              "no counterpart", NO_TOPICS),
        *each("useQueueForQueueMessages", "no counterpart", "dead letters are always in a queue"),
    ]
)  # fmt: skip
"""By attribute of a dead-letter strategy."""

POLICY: Final[Mapping[str, tuple[Conversion, str]]] = dict(
    each("preDispatchCheck", "not needed", "a message without redeliveries left never reaches a handler")
)
"""By attribute of a redeliveryPolicy."""
