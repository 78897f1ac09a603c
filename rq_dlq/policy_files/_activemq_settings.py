"""What ActiveMQ Classic's other settings are here: why they are not needed, or have no counterpart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rq_dlq.policy_files._reading import Outcome


def _all(names: str, outcome: Outcome, reason: str) -> Iterable[tuple[str, tuple[Outcome, str]]]:
    return ((name, (outcome, reason)) for name in names.split())


NO_TOPICS: Final = "there are queues only, no topics"
AUDIT: Final = "a message is in a dead-letter queue once, known by its id, exactly and without a window"
DESTINATIONS: Final = ("queue", "topic", "tempQueue", "tempTopic", "destination")

ENTRY: Final[Mapping[str, tuple[Outcome, str]]] = dict(
    [
        *_all("expireMessagesPeriod maxExpirePageSize", "not needed",
              "nothing is scanned: an index tells what expires next, and clients and workers look after it"),
        *_all("persistJMSRedelivered", "not needed",
              "the count is in Redis before a consumer sees the message, always"),
        *_all("sendDuplicateFromStoreToDLQ", "not needed", "an id that a queue knows is not taken twice"),
        *_all("enableAudit maxProducersToAudit maxAuditDepth maxQueueAuditDepth", "not needed",
              "an id that a queue knows is not taken twice, without a window"),
        *_all("prioritizedMessages strictOrderDispatch", "not needed",
              "always: by priority, then due time, then the order of sending"),
        *_all("queuePrefetch queueBrowserPrefetch usePrefetchExtension", "not needed",
              "each claim says how many messages it takes"),
        *_all("maxPageSize maxBrowsePageSize", "not needed", "every script has its own limit"),
        *_all("gcInactiveDestinations inactiveTimeoutBeforeGC inactiveTimoutBeforeGC gcWithNetworkConsumers",
              "not needed", "an empty queue is a few counters, which may stay"),
        *_all("memoryLimit storeUsageHighWaterMark cursorMemoryHighWaterMark producerFlowControl "
              "blockedProducerWarningInterval sendFailIfNoSpace sendFailIfNoSpaceAfterTimeout useCache "
              "reduceMemoryFootprint minimumMessageSize doOptimzeMessageStorage "
              "optimizeMessageStoreInFlightLimit pendingQueuePolicy maxDestinations", "no counterpart",
              "all queues share the memory of Redis, which maxmemory bounds (with noeviction; a full Redis "
              "refuses to take more, and drains)"),
        *_all("consumersBeforeDispatchStarts timeBeforeDispatchStarts lazyDispatch optimizedDispatch "
              "useConsumerPriority allConsumersExclusiveByDefault dispatchPolicy messageGroupMapFactory "
              "messageGroupMapFactoryType slowConsumerStrategy", "no counterpart",
              "consumers come and claim, a queue does not choose among them; max_in_flight bounds them all"),
        *_all("advisoryForSlowConsumers advisoryForDiscardingMessages advisoryWhenFull advisoryForDelivery "
              "advisoryForConsumed advisoryForDispatched advisoryForFastProducers includeBodyForAdvisory "
              "sendAdvisoryIfNoConsumers advancedNetworkStatisticsEnabled advancedMessageStatisticsEnabled "
              "useTopicSubscriptionInflightStats", "no counterpart",
              "there are no advisory messages; `rq-dlq queue ls` tells the counts"),
        *_all("topicPrefetch durableTopicPrefetch alwaysRetroactive pendingSubscriberPolicy "
              "pendingDurableSubscriberPolicy subscriptionRecoveryPolicy pendingMessageLimitStrategy "
              "messageEvictionStrategy", "no counterpart", NO_TOPICS),
        *_all("networkBridgeFilterFactory", "no counterpart", "there is one Redis, no network of brokers"),
        *_all("messageInterceptorStrategy allowTempDestinationStealing", "no counterpart",
              "nothing stands between a sender and its queue"),
    ]
)  # fmt: skip
"""By attribute or element of a policyEntry."""

STRATEGY: Final[Mapping[str, tuple[Outcome, str]]] = dict(
    [
        *_all("enableAudit maxProducersToAudit maxAuditDepth maxDestinationsToAudit", "not needed", AUDIT),
        *_all("topicPrefix topicSuffix useQueueForTopicMessages destinationPerDurableSubscriber",
              "no counterpart", NO_TOPICS),
        *_all("useQueueForQueueMessages", "no counterpart", "dead letters are always in a queue"),
    ]
)  # fmt: skip
"""By attribute of a dead-letter strategy."""

POLICY: Final[Mapping[str, tuple[Outcome, str]]] = dict(
    _all("preDispatchCheck", "not needed", "a message that is spent never reaches a handler")
)
"""By attribute of a redeliveryPolicy."""
