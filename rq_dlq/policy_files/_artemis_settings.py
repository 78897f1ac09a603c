"""What Artemis' other settings are here: why they are not needed, or have no counterpart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rq_dlq.policy_files._reading import Outcome


def _all(names: str, outcome: Outcome, reason: str) -> Iterable[tuple[str, tuple[Outcome, str]]]:
    return ((name, (outcome, reason)) for name in names.split())


OTHERS: Final[Mapping[str, tuple[Outcome, str]]] = dict(
    [
        *_all("send-to-dla-on-no-route", "not needed",
              "a message is sent to a queue, which is there as soon as it is named: none is without a route"),
        *_all("max-size-bytes max-size-messages max-size-bytes-reject-threshold address-full-policy "
              "disk-full-policy page-full-policy page-size-bytes page-max-cache-size page-limit-bytes "
              "page-limit-messages max-read-page-messages max-read-page-bytes prefetch-page-messages "
              "prefetch-page-bytes", "no counterpart",
              "nothing is paged: all queues share the memory of Redis, which maxmemory bounds "
              "(with noeviction; a full Redis refuses to take more, and drains)"),
        *_all("auto-create-queues auto-create-addresses auto-create-jms-queues auto-create-jms-topics",
              "not needed", "a queue is there as soon as it is named"),
        *_all("auto-delete-queues auto-delete-created-queues auto-delete-queues-delay "
              "auto-delete-queues-message-count auto-delete-queues-skip-usage-check auto-delete-addresses "
              "auto-delete-addresses-delay auto-delete-addresses-skip-usage-check auto-delete-jms-queues "
              "auto-delete-jms-topics config-delete-queues config-delete-addresses config-delete-diverts",
              "not needed", "an empty queue is a few counters, which may stay"),
        *_all("last-value-queue default-last-value-queue default-last-value-key", "no counterpart",
              "a message is never replaced by a later one; the same id is taken once"),
        *_all("default-ring-size", "no counterpart", "nothing pushes older messages out"),
        *_all("default-non-destructive", "no counterpart",
              "what is acked is gone; `rq-dlq peek` and browse() look without taking"),
        *_all("default-exclusive-queue default-group-rebalance default-group-rebalance-pause-dispatch "
              "default-group-buckets default-group-first-key", "no counterpart",
              "messages are not bound to one consumer; max_in_flight = 1 does one at a time"),
        *_all("default-consumers-before-dispatch default-delay-before-dispatch default-max-consumers "
              "default-purge-on-no-consumers", "no counterpart",
              "consumers come and claim, a queue does not know how many there are; "
              "`rq-dlq queue pause` holds it back"),
        *_all("default-consumer-window-size", "not needed", "each claim says how many messages it takes"),
        *_all("default-queue-routing-type default-address-routing-type retroactive-message-count",
              "no counterpart", "there are queues only, no addresses that copy messages to many"),
        *_all("redistribution-delay", "not needed", "all consumers of a queue ask the same Redis"),
        *_all("slow-consumer-threshold slow-consumer-threshold-measurement-unit slow-consumer-policy "
              "slow-consumer-check-period", "no counterpart",
              "a slow consumer keeps only what it claimed, until its lease runs out"),
        *_all("message-counter-history-day-limit enable-metrics management-browse-page-size "
              "management-message-attribute-size-limit", "not needed",
              "counts are always kept, and read with `rq-dlq queue ls`"),
        *_all("enable-ingress-timestamp", "not needed", "each message has enqueued_at"),
        *_all("id-cache-size", "not needed", "a queue knows the ids of all its messages, exactly"),
        *_all("initial-queue-buffer-size", "not needed", "Redis grows by itself"),
    ]
)  # fmt: skip
"""By setting of an address-setting."""

CORE: Final[Mapping[str, tuple[Outcome, str]]] = dict(
    [
        *_all("message-expiry-scan-period message-expiry-thread-priority", "not needed",
              "nothing is scanned: an index tells what expires next, and clients and workers look after it"),
        *_all("persist-delivery-count-before-delivery max-redelivery-records", "not needed",
              "the count is in Redis before a consumer sees the message, always"),
        *_all("address-queue-scan-period", "not needed", "nothing has to be deleted by itself"),
        *_all("id-cache-size persist-id-cache", "not needed",
              "a queue knows the ids of all its messages, exactly"),
        *_all("wild-card-routing-enabled", "not needed",
              "patterns choose policies; messages are sent to queues by their full name"),
    ]
)  # fmt: skip
"""By setting of the whole broker; only those that have to do with redelivery, dead letters and expiry."""

APART: Final = ("address-settings", "wildcard-addresses", "literal-match-markers")
"""Settings of the whole broker that are read."""
