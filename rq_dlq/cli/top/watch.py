"""Shows readings until the user quits."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

from rich.layout import Layout
from rich.text import Text

from rq_dlq.cli.top.keys import Controls
from rq_dlq.cli.top.picture import picture
from rq_dlq.cli.top.terminal import ENDING, NEWS, SUSPEND, Terminal
from rq_dlq.values.visible import visible_line

if TYPE_CHECKING:
    from rich.console import Console

    from rq_dlq.cli.top.reading import TopReader
    from rq_dlq.cli.top.tables import Look


def watch(console: Console, reader: TopReader, look: Look) -> None:
    """Show the readings until the user quits, or a signal ends the process."""
    keys, terminal = Controls(look), Terminal(console)
    came: set[int] = {NEWS}
    reader.start(terminal.tell)
    with terminal.listening():
        while not (keys.quit or came & ENDING):
            with terminal.screen() as draw:
                while not (keys.quit or came & {*ENDING, SUSPEND}):
                    if terminal.whole:
                        draw(_screen(reader, keys, console))
                    elif NEWS in came:
                        draw(picture(reader.last, keys.look, console.width))
                    came, typed = terminal.wait()
                    keys.press(typed)
                    if reader.broken:
                        raise reader.broken
            if SUSPEND in came:
                os.kill(os.getpid(), signal.SIGSTOP)
                came = {NEWS}


def _screen(reader: TopReader, keys: Controls, console: Console) -> Layout:
    """A picture as high as the terminal, with a line of keys below."""
    screen = Layout()
    screen.split_column(
        Layout(picture(reader.last, keys.look, console.width, console.height - 1)),
        Layout(Text(visible_line(str(keys)), "dim", no_wrap=True), size=1),
    )
    return screen
