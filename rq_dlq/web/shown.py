"""The functions and filters of the templates, which format values."""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import jinja2
from markupsafe import Markup, escape

from rq_dlq._redis.errors import START
from rq_dlq.core.queues.who import name_of
from rq_dlq.errors import BrokerRefused, BrokerUnavailable
from rq_dlq.policy.readable import as_read, in_a_line
from rq_dlq.values.durations import human
from rq_dlq.values.failure import moment
from rq_dlq.values.readable import many, span, utc
from rq_dlq.values.version import __version__
from rq_dlq.values.visible import visible

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rq_dlq.core.looking.trouble import Trouble
    from rq_dlq.errors import RqDlqError

_TICKS = re.compile("`([^`]+)`")
LONG = 60.0  # a duration of this many seconds or more is shown without tenths


def heading(error: RqDlqError) -> str:
    """A short heading for a failure."""
    if isinstance(error, BrokerUnavailable):
        return "Redis does not answer"
    return "Redis refuses" if isinstance(error, BrokerRefused) else "This cannot be read"


def why(error: RqDlqError) -> str:
    """The reason for a failure, without advice for the command line."""
    return str(error).removesuffix(f": {START}")


def templates(shared: Mapping[str, object]) -> jinja2.Environment:
    """The templates. All text is escaped, and control and direction characters are made visible.

    Args:
        shared: the values that all templates use.
    """
    found: Any = jinja2.Environment(
        loader=jinja2.PackageLoader("rq_dlq.web"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters.update(number=number, rate=rate, span=seconds, clock=clock, many=many, ticks=ticks)
    ours = {
        "link": link,
        "page_of": page_of,
        "ago": ago,
        "as_read": as_read,
        "heading": heading,
        "in_a_line": in_a_line,
        "moment": moment,
        "name_of": name_of,
        "why": why,
        "version": __version__,
    }
    found.globals.update(ours, **shared)
    return found  # type: ignore[no-any-return]


def _finalize(value: Any) -> Any:
    if isinstance(value, Markup):
        return value
    return visible(value) if isinstance(value, str) else value


def number(value: float) -> str:
    """A count."""
    return f"{value:,.0f}"


def rate(value: float) -> str:
    """A rate per second, rounded for display."""
    if not value:
        return "0"
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}" if value >= 0.1 else "<0.1"  # noqa: PLR2004


def seconds(value: float | None) -> str:
    """A duration."""
    if value is None:
        return "-"
    if value >= LONG:
        return human(round(value / LONG) * 60_000 if value >= LONG * 60 else round(value) * 1000)
    return human(round(value * 1000)) if value < 1 else span(value)


def clock(at: datetime) -> Markup:
    """A time of the server, for people and for programs."""
    return Markup('<time datetime="{}">{}</time>').format(at.isoformat(), utc(at))


def ago(at: datetime, now: datetime) -> Markup:
    """How long ago a time was, with the time itself as the title."""
    passed = (now - at).total_seconds()
    text = f"{seconds(passed)} ago" if passed >= 0 else f"in {seconds(-passed)}"
    title = utc(at)
    return Markup('<time datetime="{}" title="{}">{}</time>').format(at.isoformat(), title, text)


def ticks(text: str) -> Markup:
    """One of our sentences, with its `commands` formatted as code."""
    return Markup(_TICKS.sub(r"<code>\1</code>", str(escape(visible(text)))))  # noqa: S704 - it is escaped


def link(page: str, /, **given: object) -> str:
    """The address of a page below the root, with its arguments. Names and ids may have any characters."""
    query = urlencode({name: value for name, value in given.items() if value not in (None, "")})
    return f"{page}?{query}" if query else page


def page_of(trouble: Trouble) -> str:
    """The address of the page with the details of a problem."""
    pages = {"redrive": "redrive", "dying": "group"}
    if not trouble.subject or trouble.kind not in pages:
        return link("queue", name=trouble.queue)
    return link(pages[trouble.kind], queue=trouble.queue, id=trouble.subject)
