"""What runs handlers, and what maintains queues."""

from rq_dlq.worker.worker import Worker

__all__ = ["Worker"]
