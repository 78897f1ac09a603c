"""The only room that talks to Redis: it runs steps, blocking or awaiting.

Our own retries replace redis-py's, which would run a script twice without notice: here a repeated call is
marked as a repetition (I12). Connections are redis-py's, without its command layer.
"""

from rq_dlq._redis.awaiting.connections import AsyncConnections
from rq_dlq._redis.blocking.connections import Connections
from rq_dlq._redis.exchange import exchange
from rq_dlq._redis.retries import FAIL_FAST, Retries
from rq_dlq._redis.urls import check_scheme, masked

__all__ = ["FAIL_FAST", "AsyncConnections", "Connections", "Retries", "check_scheme", "exchange", "masked"]
