"""Plots the report on dead letters: how many of each kind, since when, and which kinds are new."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from rq_dlq.spark.pipeline.tables import Rows

NAME: Final = "poison.png"
MOST_KINDS: Final = 12
WIDEST: Final = 72
KNOWN, NEW, GREY = "#1f6fb4", "#d9480f", "#6b7280"
GONE: Final = 0.3
"""The opacity of messages that are no longer dead."""


def possible() -> bool:
    """Whether matplotlib is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def draw(poison: Rows, run: int, path: Path) -> None:
    """Draw the largest kinds.

    Args:
        poison: one or more rows, the largest kind first.
        run: the number of this run; kinds that it saw first are marked as new, except in the first run.
        path: of the picture.
    """
    import matplotlib as mpl  # noqa: PLC0415 - an extra

    mpl.use("agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    shown = poison[:MOST_KINDS]
    colours = [NEW if row["first_run"] == run > 1 else KNOWN for row in shown]
    style: Any = {
        "font.size": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.spines.left": False,
    }
    with plt.rc_context(style):
        figure = plt.figure(figsize=(12, 2.0 + 0.62 * len(shown)))
        figure.set_layout_engine("constrained", wspace=0.05, h_pad=0.08, w_pad=0.08)
        names, bars, times = figure.subplots(1, 3, sharey=True, width_ratios=(4.2, 3.4, 3.0))
        _names(names, shown, colours)
        _bars(bars, shown, colours)
        _times(times, shown, colours)
        bars.set_ylim(len(shown) - 0.4, -0.6)
        figure.suptitle(_title(poison, run), x=0.004, ha="left", fontsize=12, fontweight="bold")
        if any(row["dead_now"] < row["count"] for row in shown) or NEW in colours:
            _legend(figure, mpl)
        figure.savefig(path, dpi=120)
        plt.close(figure)


def _title(poison: Rows, run: int) -> str:
    letters, dead = sum(row["count"] for row in poison), sum(row["dead_now"] for row in poison)
    new = sum(row["first_run"] == run for row in poison)
    kinds = f"{len(poison)} kind{'' if len(poison) == 1 else 's'}"
    text = f"{letters:,} dead letters of {kinds}, {dead:,} of them dead now"
    if run > 1:
        text += f"; new since the last run: {new or 'none'}"
    if (left := len(poison) - MOST_KINDS) > 0:
        text += f"; the {left} smallest kinds are not shown"
    return text


def _names(axes: Any, shown: Rows, colours: Sequence[str]) -> None:
    """The texts of each kind."""
    axes.axis("off")
    axes.set_xlim(0, 1)
    for y, (row, colour) in enumerate(zip(shown, colours, strict=True)):
        mark = "NEW  " if colour == NEW else ""
        name = f"{mark}{row['error_class'] or row['reason'] or 'unknown'}"
        where = " · ".join(filter(None, (row["queue"], row["reason"], row["fingerprint"])))
        axes.text(0, y - 0.24, _cut(name), weight="bold", color=colour, va="center", parse_math=False)
        axes.text(0, y + 0.04, _cut(row["error_message"] or ""), va="center", fontsize=8, parse_math=False)
        axes.text(0, y + 0.3, _cut(where), va="center", fontsize=7, color=GREY, parse_math=False)


def _bars(axes: Any, shown: Rows, colours: Sequence[str]) -> None:
    """The number of dead letters, and of those that are still dead."""
    largest = max(row["count"] for row in shown)
    for y, (row, colour) in enumerate(zip(shown, colours, strict=True)):
        axes.barh(y, row["count"], 0.55, color=colour, alpha=GONE, linewidth=0)
        axes.barh(y, row["dead_now"], 0.55, color=colour, linewidth=0)
        share = f"{row['share']:.0%}" if row["share"] >= 0.01 else "<1%"  # noqa: PLR2004
        axes.text(row["count"] + largest * 0.02, y, f"{row['count']:,}  ({share})", va="center")
    axes.set_xlim(0, largest * 1.3)
    axes.tick_params(left=False, labelleft=False)
    axes.locator_params(axis="x", nbins=4, integer=True)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.set_title("dead letters", loc="left", fontsize=9, color=GREY)


def _times(axes: Any, shown: Rows, colours: Sequence[str]) -> None:
    """From the first death to the last."""
    from matplotlib import dates  # noqa: PLC0415

    ticks: Any = dates

    for y, (row, colour) in enumerate(zip(shown, colours, strict=True)):
        span = [row["first_seen"], row["last_seen"]]
        axes.plot(span, [y, y], color=colour, linewidth=2.5, marker="o", markersize=5, solid_capstyle="round")
    begin = min((row["first_seen"] for row in shown if row["first_seen"]), default=None)
    end = max((row["last_seen"] for row in shown if row["last_seen"]), default=None)
    if begin is not None and end is not None:
        margin = max((end - begin) * 0.06, timedelta(seconds=1))
        axes.set_xlim(begin - margin, end + margin)
    locator = ticks.AutoDateLocator(minticks=3, maxticks=6)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ticks.ConciseDateFormatter(locator))
    axes.grid(axis="x", color="#e5e7eb")
    axes.set_axisbelow(True)
    axes.tick_params(left=False)
    axes.set_title("first to last death (UTC)", loc="left", fontsize=9, color=GREY)


def _legend(figure: Any, mpl: Any) -> None:
    def patch(colour: str, alpha: float, label: str) -> Any:
        return mpl.patches.Patch(facecolor=colour, alpha=alpha, linewidth=0, label=label)

    handles = [
        patch(KNOWN, 1, "dead now"),
        patch(KNOWN, GONE, "no longer dead"),
        patch(NEW, 1, "new since the last run"),
    ]
    figure.legend(handles=handles, loc="outside lower left", ncols=3, frameon=False, fontsize=8)


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= WIDEST else f"{line[: WIDEST - 1]}…"
