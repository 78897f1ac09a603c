"""The walk in a real browser: what a person sees and clicks, from the alert to the redriven letters.

A person has the overview open when the outage begins. The canary of the redrive fails while the shop is
still broken. The person resumes the redrive after the mend, and then redrives the canary's letters, which
died again. Nothing here sleeps: each step is over when the page shows what it is for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.proofs.triage.outage import APP, Outage, expect
from tests.proofs.triage.walk import Walk, WentWrongError
from tests.web.browser import launched, opened, serving

ERROR = "PaymentServiceDownError"


@dataclass
class Person:
    """Somebody at the pages.

    Attributes:
        clicked: within the step that goes on.
        pictures: where a picture of each step is put; None: nowhere.
    """

    walk: Walk
    page: Any
    pictures: Path | None
    clicked: list[str] = field(default_factory=list[str])

    @contextmanager
    def step(self, what: str) -> Iterator[None]:
        """A step, which has a picture at its end, also where it went wrong."""
        self.clicked = []
        name = f"{len(self.walk.steps) + 1}-{what.partition(':')[0].replace(' ', '-')}.png"
        try:
            with self.walk.step(what, self.clicked):
                yield
        finally:
            if self.pictures is not None:
                self.pictures.mkdir(parents=True, exist_ok=True)
                self.page.screenshot(path=self.pictures / name)

    def click(self, role: str, words: str) -> None:
        """Click a link or a button with these words."""
        self.page.get_by_role(role, name=words).first.click()
        self.clicked.append(words)

    def fill(self, label: str, value: int) -> None:
        """Write a number into a field."""
        self.page.get_by_role("spinbutton", name=re.compile(f"^{label}")).fill(str(value))
        self.clicked.append(f"{label} {value}")

    def sees(self, words: str, *, place: str = "main") -> None:
        """Wait until the page shows this."""
        self.page.locator(f'{place}:has-text("{words}")').first.wait_for()

    def sees_tile(self, name: str, count: int) -> None:
        """Wait until a tile has this count."""
        self.page.locator(f'.tile:has(dt:text-is("{name}")) dd:text-is("{count}")').wait_for()

    def sees_progress(self, count: int) -> list[str]:
        """Wait until all of so many are back; what the page showed before."""
        shown = self.page.locator(".progress span")
        seen: list[str] = []
        while (text := shown.inner_text()) != f"{count} of {count}":
            seen.append(text)
            self.page.locator(f'.progress span:not(:text-is("{text}"))').wait_for()
        self.walk.console.print(f"  {', '.join(seen)}, {text}")
        return seen


def walked(walk: Walk, outage: Outage, *, width: int, pictures: Path | None) -> None:
    """The whole way.

    Raises:
        WentWrongError: it led elsewhere.
    """
    with (
        serving(walk.env["RQ_DLQ_URL"], {"LOGNAME": "anna"}) as address,
        launched() as chromium,
        opened(chromium, width=width) as page,
    ):
        person = Person(walk, page, pictures)
        page.goto(address)
        person.sees("All is well")
        ids = outage.happen(walk)
        with walk.beside("worker", APP):
            _look(person, outage)
            _canary_fails(person, outage)
            outage.mend()
            _redrive(person, outage)
        with person.step("all clear: the group is gone"):
            person.click("link", "Overview")
            person.sees("to look at")
            page.locator(f".troubles:has-text('{ERROR}')").wait_for(state="detached")
    outage.check_sums(ids)
    second, first = outage.orders.dlq.jobs()
    did = "started", "paused", "resumed", "done"
    outage.check_redrive(first.id, outage.letters, outage.canary, *did, by="web: anna")
    outage.check_redrive(second.id, outage.canary, 0, "started", "done", by="web: anna")


def _look(person: Person, outage: Outage) -> None:
    letters, growing = outage.letters, f"{outage.letters} dead letters within the last hour"
    with person.step("alert: a group grows"):
        person.sees(growing, place=f".troubles a:has-text('{ERROR}')")
    with person.step("group: how many, since when"):
        person.click("link", ERROR)
        person.sees_tile("dead letters", letters)
        person.sees("Newest message, as an example")
    with person.step("story: of one of them"):
        person.page.locator("section:has(h2:text('Newest message')) a").first.click()
        person.clicked.append("its newest message")
        person.sees("Its story")
        person.sees("Next:")
    with person.step("dry run: what would come back"):
        person.click("link", "Redrive its group")
        person.fill("Canary", outage.canary)
        person.fill("Rate", outage.rate)
        person.click("button", "Dry run")
        person.sees(f"{letters} dead letters would be redriven")


def _canary_fails(person: Person, outage: Outage) -> None:
    with person.step("canary: it fails, all stops"):
        person.click("button", "Begin with the canary")
        person.sees("It is paused")
        person.sees_tile("died again", outage.canary)


def _redrive(person: Person, outage: Outage) -> None:
    letters, canary = outage.letters, outage.canary
    with person.step("resume: after the mend, live"):
        person.click("button", "Resume")
        live = person.sees_progress(letters)
        person.sees_tile("acked", letters - canary)
    if not live:
        raise WentWrongError("the progress was not live: all were back when the page came")
    with person.step("the rest: what died again"):
        person.click("link", "Look at what died again")
        person.click("button", "Dry run")
        person.sees(f"{canary} dead letters would be redriven")
        person.click("button", "Begin with the canary")
        person.sees_tile("acked", canary)
    expect("dead letters on the page", person.page.locator(".tile.bad").count(), 0)
