"""From a policy in Redis to the arguments of `RedeliveryPolicy`."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from rq_dlq.errors import PolicyError
from rq_dlq.policy import _checks as check
from rq_dlq.policy.arithmetic import Backoff
from rq_dlq.policy.presets import ActiveMQRedelivery, ArtemisRedelivery
from rq_dlq.values.durations import TEN_YEARS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rq_dlq.policy.arithmetic import Arithmetic

KINDS: Final[Mapping[str, type[Arithmetic]]] = {
    kind.NAME: kind for kind in (Backoff, ArtemisRedelivery, ActiveMQRedelivery)
}


def read(wire: Mapping[str, Any]) -> dict[str, Any]:
    """See `RedeliveryPolicy.from_wire`."""
    fields = dict(wire)
    arithmetic = fields.pop("arithmetic", None)
    if not isinstance(arithmetic, str) or arithmetic not in KINDS:
        message = f"not a policy: its arithmetic is {arithmetic!r}. There are {', '.join(KINDS)}"
        raise PolicyError(message)
    kind = KINDS[arithmetic]
    wrong = sorted(fields.keys() ^ {"max_redeliveries", *(field.name for field in dataclasses.fields(kind))})
    if wrong:
        message = f"not a policy of arithmetic {arithmetic!r}: missing or unknown is {', '.join(wrong)}"
        raise PolicyError(message)
    if kind is not Backoff:
        limit = fields.pop("max_redeliveries")
        return {"preset": kind(**fields), "max_redeliveries": limit}
    limit, delays = fields["max_delay"], fields["delays"]
    return {
        **fields,
        "initial_delay": _span(fields["initial_delay"], "initial_delay"),
        "max_delay": None if limit is None else _span(limit, "max_delay"),
        "delays": None if delays is None else [_span(delay, "delays") for delay in delays],
    }


def _span(ms: object, name: str) -> timedelta:
    return timedelta(milliseconds=check.whole(ms, f"{name}, in milliseconds,", 0, TEN_YEARS))
