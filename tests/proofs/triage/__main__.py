"""An outage fills a dead-letter queue; find its letters among others, mend, and redrive them.

make triage-demo, or

python -m tests.proofs.triage --letters 400 --poisons 50
python -m tests.proofs.triage --browser --pictures walk

The whole way is walked against a Redis of its own, on the command line (`commands.py`) or in a real browser
(`browser.py`). At the end each order has to be charged once, and what is beyond help still dead. On the
command line an outage that is over is then seen to be so, some of the dead are edited, the rest purged. Then
comes another outage; the queue has a breaker by now.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from pathlib import Path

import pytest

from rq_dlq import Broker
from tests.proofs.triage import browser, commands
from tests.proofs.triage.outage import Outage
from tests.proofs.triage.walk import Walk, WentWrongError
from tests.servers import running


def main(words: list[str] | None = None) -> int:
    """Walk it; 1: something went wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.proofs.triage", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--letters", type=int, default=400, help="that the outage leaves")
    parser.add_argument("--poisons", type=int, default=50, help="that fail always")
    parser.add_argument("--browser", action="store_true", help="walk in a browser, not on the command line")
    parser.add_argument("--width", type=int, default=1280, help="of the browser, in pixels")
    parser.add_argument("--pictures", type=Path, metavar="DIR", help="where the browser's pictures go")
    parser.add_argument("--longest", type=int, default=60, help="seconds that a person may need in it")
    asked = parser.parse_args(words)
    with running() as socket, tempfile.TemporaryDirectory(prefix="rq-dlq-triage-") as directory:
        url = f"unix://{socket}"
        walk = Walk({"RQ_DLQ_URL": url, "TRIAGE_DIRECTORY": directory})
        try:
            with Broker(url) as broker:
                outage = Outage(Path(directory), broker, asked.letters, asked.poisons)
                if asked.browser:
                    browser.walked(walk, outage, width=asked.width, pictures=asked.pictures)
                    walk.check_time(asked.longest)
                else:
                    commands.walked(walk, outage)
                charged, dead = outage.counted()
        except WentWrongError as error:
            walk.console.print(f"went wrong: {error}", style="red", markup=False)
            return 1
        sent = asked.poisons + asked.letters * (1 if asked.browser else 2)
        purged = sent - charged - dead
        walk.console.print(
            f"  {sent} orders: {charged} charged, each once; {dead} dead, {purged} purged; none lost\n"
        )
        walk.summary()
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the worker and the server are ended, too
    try:
        sys.exit(main())
    except pytest.skip.Exception as lacking:
        sys.exit(str(lacking))
