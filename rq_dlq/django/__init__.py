"""Queues in a Django project: "rq_dlq.django" in INSTALLED_APPS, and `RQ_DLQ` in its settings."""

from __future__ import annotations

TYPE_CHECKING = False  # True for type checkers, without importing typing

if TYPE_CHECKING:
    from rq_dlq.django.sending import Broker

    broker: Broker

__all__ = ["broker"]


def __getattr__(name: str) -> object:
    """The broker of the project, made when it is first used: Django imports this before the settings."""
    if name == "broker":
        from rq_dlq.django.apps import broker  # noqa: PLC0415

        return broker()
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message)
