"""The page for operators: `rq-dlq web`, and `rq_dlq.web.app(broker)` for a program of one's own."""

from rq_dlq.web.application import app

__all__ = ["app"]
