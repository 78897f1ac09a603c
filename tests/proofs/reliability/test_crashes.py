"""What is counted after an accident."""

from __future__ import annotations

from pathlib import Path

from tests.needs import lack
from tests.proofs.reliability.crashes import (
    ACCIDENTS,
    BEGIN,
    END,
    Accident,
    Counts,
    as_markdown,
    counted,
    happen,
    write,
)
from tests.proofs.reliability.journal import Journal
from tests.proofs.reliability.shims import missing


def test_counts_by_journals(tmp_path: Path) -> None:
    sender, one, other = (Journal(tmp_path, name) for name in ("sender", "one", "other"))
    sender.note("send", ["kept", "lost", "twice", "again", "unknown"])
    sender.note("sent", ["kept", "lost", "twice", "again"])
    for name in ("kept", "twice", "again"):
        one.note("got", [name])
        one.note("ack", [name])
    one.note("acked", ["kept", "twice"])  # the ack of `again` was cut off
    one.note("stale", ["again"])
    for name in ("twice", "again"):
        other.note("got", [name])
        other.note("ack", [name])
        other.note("acked", [name])
    assert counted(tmp_path) == Counts(sent=4, lost=1, handled=3, twice=2, acked=1)
    assert counted(tmp_path, ["lost"]) == Counts(sent=4, lost=0, handled=3, twice=2, acked=1)


def test_a_server_that_keeps_nothing_loses_what_waits(tmp_path: Path) -> None:
    """The program finds a fault: the same accident, with a server that never syncs."""
    if reason := missing():
        lack(reason)
    lost = happen(Accident(words="", fsync="no", cut=True), tmp_path, 1, 0.5)
    assert lost.lost > 0


def test_the_table_goes_into_the_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    table = as_markdown({name: Counts(1_000, 2, 3, 4, 5) for name in ACCIDENTS})
    write(table, page)
    write(table, page)
    assert page.read_text() == f"before\n{BEGIN}\n\n{table}\n\n{END}\nafter\n"
    assert table.count("| 1,000 | 2 | 3 | 4 | 5 |") == len(ACCIDENTS)
