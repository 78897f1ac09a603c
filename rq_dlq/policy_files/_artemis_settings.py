"""Artemis' other settings: why they are not needed here, or have no counterpart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rq_dlq.policy_files._reading import each

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rq_dlq.policy_files._reading import Conversion

OTHERS: Final[Mapping[str, tuple[Conversion, str]]] = dict(
    [
        *each("send-to-dla-on-no-route", "not needed",
              "a message is sent to a queue, which exists as soon as it is named: it always has a route"),
        *each("max-size-bytes max-size-messages max-size-bytes-reject-threshold address-full-policy "
              "disk-full-policy page-full-policy page-size-bytes page-max-cache-size page-limit-bytes "
              "page-limit-messages max-read-page-messages max-read-page-bytes prefetch-page-messages "
              "prefetch-page-bytes", "no counterpart",
              "nothing is paged: all queues share the memory of Redis, which maxmemory limits "
              "(with noeviction; a full Redis refuses new messages, and drains)"),
        *each("auto-create-queues auto-create-addresses auto-create-jms-queues auto-create-jms-topics",
              "not needed", "a queue exists as soon as it is named"),
        *each("auto-delete-queues auto-delete-created-queues auto-delete-queues-delay "
              "auto-delete-queues-message-count auto-delete-queues-skip-usage-check auto-delete-addresses "
              "auto-delete-addresses-delay auto-delete-addresses-skip-usage-check auto-delete-jms-queues "
              "auto-delete-jms-topics config-delete-queues config-delete-addresses config-delete-diverts",
              "not needed", "an empty queue is only a few counters, which may stay"),
        *each("last-value-queue default-last-value-queue default-last-value-key", "no counterpart",
              "a later message never replaces an earlier one; a queue ignores an id that it already has"),
        *each("default-ring-size", "no counterpart", "new messages never push out old ones"),
        *each("default-non-destructive", "no counterpart",
              "an acked message is gone; `rq-dlq peek` and browse() look without claiming"),
        *each("default-exclusive-queue default-group-rebalance default-group-rebalance-pause-dispatch "
              "default-group-buckets default-group-first-key", "no counterpart",
              "messages are not bound to one consumer; a policy can limit a queue to one delivery at a time"),
        *each("default-consumers-before-dispatch default-delay-before-dispatch default-max-consumers "
              "default-purge-on-no-consumers", "no counterpart",
              "consumers claim, a queue does not know how many there are; "
              "`rq-dlq queue pause` stops deliveries"),
        *each("default-consumer-window-size", "not needed", "each claim says how many messages it takes"),
        *each("default-queue-routing-type default-address-routing-type retroactive-message-count",
              "no counterpart", "there are queues only, no addresses that copy messages to several queues"),
        *each("redistribution-delay", "not needed", "all consumers of a queue ask the same Redis"),
        *each("slow-consumer-threshold slow-consumer-threshold-measurement-unit slow-consumer-policy "
              "slow-consumer-check-period", "no counterpart",
              "a slow consumer keeps only what it claimed, until its lease runs out"),
        *each("message-counter-history-day-limit enable-metrics management-browse-page-size "
              "management-message-attribute-size-limit", "not needed",
              "counts are always kept, and read with `rq-dlq queue ls`"),
        *each("enable-ingress-timestamp", "not needed", "each message has enqueued_at"),
        *each("id-cache-size", "not needed", "a queue knows the ids of all its messages, exactly"),
        *each("initial-queue-buffer-size", "not needed", "Redis grows by itself"),
    ]
)  # fmt: skip
"""By setting of an address-setting."""

CORE: Final[Mapping[str, tuple[Conversion, str]]] = dict(
    [
        *each("message-expiry-scan-period message-expiry-thread-priority", "not needed",
              "nothing is scanned: an index shows what expires next, and clients and workers check it"),
        *each("persist-delivery-count-before-delivery max-redelivery-records", "not needed",
              "the count is always in Redis before a consumer sees the message"),
        *each("address-queue-scan-period", "not needed", "queues are not deleted automatically"),
        *each("id-cache-size persist-id-cache", "not needed",
              "a queue knows the ids of all its messages, exactly"),
        *each("wild-card-routing-enabled", "not needed",
              "patterns select policies; messages are sent to queues by their full name"),
    ]
)  # fmt: skip
"""By setting of the whole broker; only those about redelivery, dead letters and expiry."""

APART: Final = ("address-settings", "wildcard-addresses", "literal-match-markers")
"""Settings of the whole broker that are read elsewhere."""
