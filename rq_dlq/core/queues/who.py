"""The operator of an action, and its audit record."""

from __future__ import annotations

import logging
import secrets
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from rq_dlq.core.queues import calls
from rq_dlq.core.steps.call import Command
from rq_dlq.core.steps.step import Pipeline
from rq_dlq.errors import BrokerRefused, InvalidInput
from rq_dlq.values.codec import NO_JSON
from rq_dlq.values.durations import shown
from rq_dlq.values.user import user_at_host

if TYPE_CHECKING:
    from rq_dlq.core.steps.step import Steps

R = TypeVar("R")
logger = logging.getLogger("rq_dlq")
MOST_NAME = 200  # characters of an operator's name
MOST_TEXT = 1_000  # characters of the chosen messages, and of the change


def who(by: str | None) -> str:
    """The operator as JSON; None: the user and host of this process.

    Raises:
        InvalidInput: it is not a name.
    """
    if by is None:
        by = user_at_host()[:MOST_NAME]
    with suppress(UnicodeEncodeError):  # a lone surrogate, from a command line that is not UTF-8
        if isinstance(by, str) and 0 < len(by) <= MOST_NAME:
            return msgspec.json.encode(by).decode()
    raise InvalidInput(f"by {shown(by)}: pass a name, at most {MOST_NAME} characters")


def act(did: str, by: str | None, *, chosen: str = "", how: str = "", mark: str = "") -> Steps[str]:
    """An act on a queue as the scripts note it (lua/audit.lua, note_act), however many calls it takes.

    Args:
        did: the action, in a word or two.
        by: see `who`.
        chosen: the chosen messages, in words.
        how: the changes to them, in words.
        mark: of the plan that it carries out, so that several that do so leave one note; empty: no plan.

    Raises:
        InvalidInput: `by` is not a name.
    """
    who(by)  # raises before anything is done
    return act_by((yield calls.whoami()), did, by, chosen=chosen, how=how, mark=mark)


def act_by(user: str, did: str, by: str | None, *, chosen: str = "", how: str = "", mark: str = "") -> str:
    """The same, of a Redis user."""
    cells = [mark or secrets.token_hex(4), did, who(by), user, _text(chosen), _text(how)]
    return msgspec.json.encode(cells).decode()


def note(namespace: str, act: str, *, queue: str = "", number: int = 0) -> Steps[None]:
    """Note an act that no queue can keep: on a queue that is gone, or on the map of policies.

    Args:
        act: as `act` makes it; empty: no note.
        queue: the queue that it was done to; empty: to none.
        number: of the messages.
    """
    if not act:
        return
    try:
        yield _entry(namespace, act, queue, number)
    except BrokerRefused as error:  # as a full server does, from which something was just removed
        _, did, *_, chosen, _ = msgspec.json.decode(act)
        logger.warning("the audit has no record of this: %s %s: %s", did, queue or chosen, error)


def note_beside(
    read: Command[R], namespace: str, act: str, *, queue: str = "", number: int = 0
) -> Steps[R | None]:
    """Note an act as `note` does, and read something in the same round trip.

    Not by `riding`: a read that is refused would have the note written twice.

    Returns:
        What was read; None: nothing, since that was refused, or there is no act.
    """
    if not act:
        return None
    both = _entry(namespace, act, queue, number), read
    noted, found = yield Pipeline([Command(one.parts, optional=True) for one in both])
    if noted is None:  # it was refused; alone, it says why
        yield from note(namespace, act, queue=queue, number=number)
    return None if found is None else read.read(found, repeated=False)


def _entry(namespace: str, act: str, queue: str, number: int) -> Command[bytes]:
    act_id, did, by, user, chosen, _ = msgspec.json.decode(act)
    fields: dict[str, str | int] = {"act": act_id, "queue": queue, "number": number, "chosen": chosen}
    return calls.note(namespace, did=did, by=by, user=user, **fields)


def _text(text: str) -> str:
    return text[:MOST_TEXT].encode(errors="replace").decode()


def name_of(who: str) -> str:
    """A name that is stored as JSON."""
    try:
        name: Any = msgspec.json.decode(who or '""')
    except NO_JSON:
        return who
    return str(name)
