"""Plans in forms: what a page has shown, signed, so that its form does that and nothing more."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.exceptions import HTTPException

from rq_dlq.client.choosing import dead_choice
from rq_dlq.core.changing.plans import Planned
from rq_dlq.core.choosing.cutoff import Cutoff

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rq_dlq.asyncio.plan import Plan
    from rq_dlq.asyncio.queue import Queue
    from rq_dlq.web.access import Access

PURPOSE = b"plan"
FORGED = "the form has no plan of this page, so nothing was done: go back, reload the page, and send it again"


class Shown(msgspec.Struct, frozen=True, array_like=True):
    """A plan as a form has it.

    Attributes:
        queue, verb: what the form is for.
        ids, where, group: the chosen dead letters.
        mark, eligible, leased: of the plan.
        at, birth, returned: its moment.
        terms: of a redrive: canary, rate and min_success.
        edit: a digest of the edit; empty: none.
    """

    queue: str
    verb: str
    ids: list[str] | None
    where: str | None
    group: str | None
    mark: str
    eligible: int
    leased: int
    at: int
    birth: int
    returned: int
    terms: dict[str, int | float | None] = {}
    edit: str = ""

    def planned(self, family: str) -> Planned:
        """The plan again."""
        conditions = {"ids": self.ids, "group": self.group}
        choice = dead_choice(conditions, where=self.where)
        made = {family: Cutoff(self.at, self.birth, self.returned)}
        return Planned(
            verb="redrive" if self.verb == "edit" else self.verb, mark=self.mark, choice=choice.at(made),
            chosen=choice.in_words, eligible=self.eligible, leased=self.leased, died=True,
        )  # fmt: skip


def written(
    access: Access,
    queue: Queue[Any],
    verb: str,
    plan: Plan[Any],
    conditions: Mapping[str, Any],
    *,
    terms: Mapping[str, Any] | None = None,
    edit: str = "",
) -> str:
    """A plan as a form has it, signed."""
    planned = plan._planned  # noqa: SLF001 - the page is its other half
    (made,) = planned.cutoffs.values()
    shown = Shown(
        queue.name, verb, conditions.get("ids"), conditions.get("where"), conditions.get("group"),
        planned.mark, planned.eligible, planned.leased, made.at, made.birth, made.returned,
        dict(terms or {}), digest(edit),
    )  # fmt: skip
    return access.signed(PURPOSE, msgspec.json.encode(shown))


def read(access: Access, queue: Queue[Any], verb: str, text: object, *, edit: str = "") -> Shown:
    """The plan of a form.

    Raises:
        HTTPException: this page has not made it, or not for this; nothing was done.
    """
    content = access.opened(PURPOSE, text if isinstance(text, str) else "")
    try:
        shown = msgspec.json.decode(content or b"", type=Shown)
    except msgspec.DecodeError:
        raise HTTPException(400, FORGED) from None
    if (shown.queue, shown.verb, shown.edit) != (queue.name, verb, digest(edit)):
        raise HTTPException(400, FORGED)
    return shown


def digest(edit: str) -> str:
    """A short name of an edit, so that the one that is carried out is the one that was tried."""
    return sha256(edit.strip().encode()).hexdigest()[:16] if edit else ""
