"""The page for operators: `rq-dlq web`, and `rq_dlq.web.app(broker)` for your own program."""

from rq_dlq.web.application import app

__all__ = ["app"]
