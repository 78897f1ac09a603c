"""Every operation of the broker as a value: which script, which keys and arguments, how to read the reply.

Nothing here talks to Redis; `_redis` does.
"""

from rq_dlq._calls import (
    claims,
    delivery,
    groups,
    jobs,
    manage,
    outcomes,
    redrives,
    scans,
    schedules,
    sessions,
    upkeep,
)
from rq_dlq._calls.call import (
    Argument,
    Call,
    Command,
    Held,
    Part,
    Place,
    Run,
    Sender,
    WrongReply,
    repetition,
)
