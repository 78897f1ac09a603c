"""T41: redrives, undos and imports meet on one queue."""

from __future__ import annotations

import random
from typing import Any

from rq_dlq import Broker
from rq_dlq.core.pages import calls as page_calls
from rq_dlq.core.redrive import calls as redrive_calls
from rq_dlq.core.sending.restore import restore
from rq_dlq.values.message import MessageRow as Stored
from tests.behaviour.stepping import alone
from tests.proofs.reliability.findings import audited
from tests.proofs.reliability.row import Figures, Row, Run
from tests.servers import Server

LETTERS = 40
STEP = 7  # messages of a redrive in one step


class Meeting:
    """One queue with dead letters, and all redrives of them, each of which goes on when it is its turn."""

    def __init__(self, broker: Broker, name: str, draw: random.Random) -> None:
        self.queue: Any = broker.queue(name)
        self._draw = draw
        self._jobs: list[Any] = []
        self._exported: list[Stored] = []
        self.undone: set[str] = set()  # ids that an undo took back, while no redrive began since
        self.faults: list[str] = []

    def run(self, turns: int) -> None:
        """Take turns at random; then let all redrives end."""
        self._bury()
        for _ in range(turns):
            act = self._draw.choices(
                [self._begin, self._go_on, self._undo, self._import, self._bury], [3, 8, 2, 2, 1]
            )[0]
            act()
        for job in self._jobs:
            self._finish(job)
        self._judge()

    def _run(self, call: Any) -> Any:
        return self.queue._broker._run(alone(call))

    def _bury(self) -> None:
        self.queue.send_many(range(LETTERS), priority=9)
        self.queue.poison(self.queue.claim(LETTERS), "x")
        ids = [letter.id for letter in self.queue.dlq.browse(limit=None)]
        page = self._run(page_calls.browse(self.queue._core.keys, ids=ids))
        self._exported = page.rows()

    def _begin(self) -> None:
        """A redrive of all, or of some, at a rate by which it brings back one at its begin."""
        letters = [letter.id for letter in self.queue.dlq.browse(limit=None)]
        if not letters:
            return
        self.undone.clear()  # it may take them
        some = self._draw.sample(letters, max(1, len(letters) // 2))
        chosen: dict[str, Any] = {"all": True} if self._draw.random() < 0.5 else {"ids": some}
        self._jobs.append(self.queue.dlq.redrive(**chosen, detach=True))

    def _go_on(self) -> None:
        if self._jobs:
            self._step(self._draw.choice(self._jobs))

    def _step(self, job: Any) -> None:
        self._run(redrive_calls.step_redrive(self.queue._core.keys, job.id, limit=STEP, grace=10_000))

    def _undo(self) -> None:
        if self._jobs:
            before = {letter.id for letter in self.queue.dlq.browse(limit=None)}
            self._draw.choice(self._jobs).undo()
            self.undone |= {letter.id for letter in self.queue.dlq.browse(limit=None)} - before

    def _import(self) -> None:
        """What was exported when it was dead, and has been acked since."""
        self.queue.ack(self.queue.claim(self._draw.randrange(1, LETTERS)))
        before = {letter.id for letter in self.queue.dlq.browse(limit=None)}
        self.queue._broker._run(restore(self.queue._core, self._exported))
        self.undone |= {letter.id for letter in self.queue.dlq.browse(limit=None)} - before

    def _finish(self, job: Any) -> None:
        while job.refresh().state == "running":
            self._step(job)

    def _judge(self) -> None:
        for job in self._jobs:
            found = job.refresh().counts
            if found.moved > found.eligible:
                self.faults.append(f"{found.moved} brought back of {found.eligible} eligible")
        dead = {letter.id for letter in self.queue.dlq.browse(limit=None)}
        if back := self.undone - dead:
            self.faults.append(f"{len(back)} brought back that were dead again, by a redrive before")


def run(run: Run) -> Figures:
    """Each meeting on a queue of its own."""
    meetings, turns = run.pick(short=20, whole=200), 60
    faults: list[str] = []
    with Server(run.directory / "redis") as server, Broker(server.url) as broker:
        raw = server.client()
        for number in range(meetings):
            meeting = Meeting(broker, f"meeting{number}", run.random)
            meeting.run(turns)
            faults += meeting.faults + audited(raw, f"meeting{number}")
            run.done(number + 1, meetings)
    return Figures(
        trials=meetings * turns,
        met=not faults,
        note="; ".join(faults[:3]) or f"{meetings} queues, 0 wrong",
    )


ROWS = (
    Row(
        "T41",
        "redrives, undos of redrives and imports of old letters meet on one queue, in any order",
        "no redrive brings back more than were eligible when it began; what is dead again stays dead",
        run,
    ),
)
