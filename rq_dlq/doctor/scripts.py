"""The scripts: whether the server loads them, and whether a message makes the round trip."""

from __future__ import annotations

import secrets
import time
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rq_dlq import _keys, _work
from rq_dlq._calls import Command, upkeep
from rq_dlq._work import Batch
from rq_dlq.doctor.check import Check
from rq_dlq.errors import MissingRights, RqDlqError
from rq_dlq.values.codec import DEFAULT_PRIORITY, Ids
from rq_dlq.values.message import Leased

if TYPE_CHECKING:
    from rq_dlq._scripts import Scripts
    from rq_dlq._work import Queue, Steps
    from rq_dlq.client.settings import BrokerSettings
    from rq_dlq.values.message import Row


def loaded(scripts: Scripts) -> Steps[None]:
    """Load all scripts, as the server would on their first use."""
    yield Batch([Command((b"SCRIPT", b"LOAD", scripts[name].source)) for name in scripts.names()])


def trial(settings: BrokerSettings, scripts: Scripts) -> Steps[Check]:
    """Send, claim and ack a message in a private namespace, and remove that."""
    private = replace(settings, namespace=f"{settings.namespace}:doctor-{secrets.token_hex(4)}")
    queue = private.queue("doctor", Ids(), Any, "30s", {}, senders=_work.Senders())
    begin = time.monotonic()
    try:
        acked = yield from _there_and_back(queue)
    except MissingRights as error:
        return Check("scripts", "warn", "not tried", str(error))
    except RqDlqError as error:
        return Check("scripts", "fail", "a message could not be sent, claimed and acked", str(error))
    finally:
        with suppress(RqDlqError):  # a server that refuses changes has nothing to remove
            yield from _remove(queue)
    span = (time.monotonic() - begin) * 1000
    if acked != 1:
        return Check("scripts", "fail", "a message that was sent was not delivered", "report this as a bug")
    many = len(scripts.names())
    return Check("scripts", "ok", f"{many} loaded; a message was sent, claimed and acked in {span:.1f} ms")


def _there_and_back(queue: Queue[Any]) -> Steps[int]:
    """Send, claim, ack; how many messages were acked."""
    options = _work.send_options(None, None, DEFAULT_PRIORITY, None)
    yield from _work.send_one(queue, "well?", None, options)

    def delivery(row: Row, token: str, lease_until: int) -> Leased[Any]:
        return Leased(row, queue.codec, queue.name, token, lease_until)

    claimed = yield from _work.claim(queue, delivery)
    yield from _work.ack(queue, [message._held for message in claimed])
    _, stats = yield upkeep.stats(queue.keys, queue.name)
    return int(stats.totals.get("acked", 0))


def _remove(queue: Queue[Any]) -> Steps[None]:
    """Remove all keys that were written."""
    keys = queue.keys
    register = queue.senders.lend(keys).keys["sender"]  # of the sender that came back
    yield Command((b"DEL", *keys.by_name.values(), keys.confirm, register))
    yield Command((b"DEL", _keys.queues(keys.namespace)))
