"""Batches of deliveries, which are settled together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from rq_dlq.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rq_dlq.values.message import Leased
    from rq_dlq.values.settlement import Settlement

L = TypeVar("L", bound="Leased[Any]")


def batch(deliveries: Iterable[L]) -> list[L]:
    """The deliveries of a batch, from any iterable.

    Raises:
        InvalidInput: they are not deliveries.
    """
    try:
        return [delivery for delivery in deliveries if delivery.token]
    except (AttributeError, TypeError):
        message = "a batch is a list of deliveries, as claim() returns it"
        raise InvalidInput(message) from None


def held(deliveries: Iterable[Leased[Any]]) -> list[tuple[str, str]]:
    """The ids and tokens of a batch."""
    return [(delivery.id, delivery.token) for delivery in deliveries]


def settled(deliveries: Sequence[Leased[Any]], settlements: list[Settlement]) -> list[Settlement]:
    """Mark the deliveries that were settled, so that a `with` block or a session skips them."""
    for delivery, settlement in zip(deliveries, settlements, strict=True):
        if settlement:
            delivery.outcome = settlement.outcome
    return settlements
