"""Runs handlers, and maintains queues."""

from rq_dlq.worker.worker import Worker

__all__ = ["Worker"]
