"""The console of the command line: text of others cannot steer the terminal."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from rq_dlq.values.visible import visible


class SafeConsole(Console):
    """A console that escapes the control characters of all texts that it writes.

    The styles, links and cursor movements of rich are not part of the texts, so they stay. A caller that
    wants a text in one line uses `visible_line`, as the cells of tables do.
    """

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """The segments of a renderable, with their texts escaped."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else visible(text), style, control)
