"""Every operation of the broker as a value: which script, which keys and arguments, how to read the reply.

Nothing here talks to Redis; `_redis` does.
"""

from rq_dlq._calls.call import Argument, Call, Command, Part, Place, Sender, repetition
from rq_dlq._calls.confirm import confirmed_by, mark
from rq_dlq._calls.delivery import (
    ONLY_SUSPECTS,
    Claimed,
    Held,
    Outgoing,
    Share,
    Suspects,
    ack,
    ack_all,
    claim,
    commit,
    extend,
    nack,
    poison,
    release,
    send,
)
from rq_dlq._calls.jobs import commit_job, drop_staged, move_staged
from rq_dlq._calls.manage import (
    Changed,
    add_aliases,
    configure,
    configured,
    dead_letter,
    deliver_now,
    drop_aliases,
    encode_policy,
    expire_now,
    given_names,
    is_alias,
    is_registered,
    pause,
    policies,
    policy_version,
    prioritize,
    purge,
    purge_range,
    redrive,
    redrive_range,
    register,
    reset,
    set_policy,
    transfer,
    unregister,
    was_sent_to,
)
from rq_dlq._calls.scans import browse
from rq_dlq._calls.upkeep import (
    clock,
    discarded,
    expire,
    first_score,
    forget_maintainers,
    maintainers,
    note_maintainer,
    promote,
    registered,
    retire,
    stats,
    strategy,
    sweep,
)
