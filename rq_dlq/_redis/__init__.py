"""The only room that talks to Redis: it runs steps, blocking or awaiting.

Our own retry takes the place of redis-py's, which would run a script twice without saying so: a call is
repeated only as a repetition (I12). Connections are redis-py's, without its command layer.
"""

from rq_dlq._redis.awaiting import AsyncConnections
from rq_dlq._redis.blocking import Connections
from rq_dlq._redis.exchange import exchange
from rq_dlq._redis.notes import Notes
from rq_dlq._redis.trouble import FAIL_FAST, Retries, masked

__all__ = ["FAIL_FAST", "AsyncConnections", "Connections", "Notes", "Retries", "exchange", "masked"]
