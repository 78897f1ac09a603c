"""What is wrong with the sends and the runs of one id: each fault is found, and what is no fault is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.proofs.reliability.resends import LATE, LEASE, Notes, Run, Send, Story, story

NEW = Send("m", "a", "again", 0.0, 0.1, "new", "-")
AGAIN = Send("m", "b", "again", 0.4, 0.5, "again", "leased")
FIRST = Run("m", "a", 0.2, 0.3, 0.6, "ack", settled=True)
THIRD = Run("m", "c", 0.7, 0.8, 0.9)
SECOND = Run("m", "b", 0.7, 0.8, 0.9, "ack", settled=True)


def faults(*lines: Send | Run, letters: str = "", known: float = 0.0) -> list[str]:
    sends = [one for one in lines if isinstance(one, Send)]
    runs = [one for one in lines if isinstance(one, Run)]
    told = Story(sends, runs, {*letters.split()}, {"m": known})
    return [what for what, number in told.faults().items() if number]


@pytest.mark.parametrize(
    "lines",
    [
        (NEW, FIRST),
        (NEW, AGAIN, FIRST, SECOND),
        (NEW, FIRST, AGAIN, Send("m", "c", "again", 0.45, 0.55, "again", "leased"), THIRD),
        (NEW, FIRST, AGAIN, Send("m", "c", "replace", 0.65, 3.0), THIRD),
        (NEW, Send("m", "c", "replace", 0.15, 0.2, "replaced", "ready"), Run("m", "c", 0.3, 0.4, 0.5)),
        (NEW, FIRST, Send("m", "c", "replace", 0.4, 0.5, "none", "leased")),
    ],
    ids=["sent", "again", "asked twice", "perhaps replaced", "replaced", "nothing done"],
)
def test_all_is_well(lines: tuple[Send | Run, ...]) -> None:
    assert faults(*lines) == []


def test_what_died_is_not_lost() -> None:
    assert faults(NEW, AGAIN, FIRST, letters="b") == []


@pytest.mark.parametrize(
    "lines",
    [
        (NEW,),
        (NEW, AGAIN, FIRST),
        (NEW, FIRST, AGAIN, Send("m", "c", "again", 0.7, 0.8, "new", "-"), Run("m", "c", 0.9, 1.0, 1.1)),
        (NEW, Send("m", "c", "replace", 0.4, 0.5, "none", "leased")),
    ],
    ids=["never run", "forgotten at the ack", "forgotten before the id is new", "nothing took its place"],
)
def test_lost(lines: tuple[Send | Run, ...]) -> None:
    assert "sends that are lost" in faults(*lines)


def test_an_older_body() -> None:
    assert "runs of an older body" in faults(NEW, AGAIN, FIRST, Run("m", "a", 0.7, 0.8, 0.9), letters="b")
    before = Run("m", "a", 0.45, 0.8, 0.9)  # its claim began before the send ended
    assert "runs of an older body" not in faults(NEW, AGAIN, before, letters="b")


def test_done_twice() -> None:
    twice = Run("m", "b", 1.0, 1.1, 1.2, "ack", settled=True)
    assert "bodies that were done twice" in faults(NEW, AGAIN, FIRST, SECOND, twice)
    assert "runs more than were asked for" in faults(NEW, AGAIN, FIRST, SECOND, twice)


def test_one_more_run_than_was_asked_for() -> None:
    found = faults(NEW, Send("m", "b", "again", 0.0, 0.1, "none", "ready"), FIRST, SECOND)
    assert "runs more than were asked for" in found
    assert "bodies that ran although nothing was done with them" in found


def test_runs_at_once() -> None:
    assert faults(NEW, AGAIN, FIRST, Run("m", "b", 0.5, 0.55, 0.9)) == ["runs at once of one id"]


def test_a_body_that_nobody_sent() -> None:
    assert faults(NEW, FIRST, Run("m", "x", 0.7, 0.8, 0.9)) == ["bodies that nobody sent"]


@pytest.mark.parametrize(
    ("mode", "known", "did"),
    [("again", "leased", "none"), ("replace", "leased", "again"), ("debounce", "ready", "postponed")],
)
def test_an_answer_that_does_not_fit(mode: str, known: str, did: str) -> None:
    sent = Send("m", "b", mode, 0.4, 0.5, did, known)
    assert "answers that the table does not have" in faults(NEW, FIRST, sent)


@pytest.mark.parametrize(("ended", "known", "well"), [(0.1, 0.5, True), (0.1, 0.9, False), (1.7, 0.9, True)])
def test_an_id_that_is_new_too_soon(ended: float, known: float, *, well: bool) -> None:
    """The third: it may have come after the one that began later."""
    first, later = Send("m", "a", "unique", 0.0, ended, "new"), Send("m", "b", "unique", 0.7, 0.75, "new")
    assert ("ids that were forgotten too soon" not in faults(first, later, known=known)) is well


def test_what_processes_noted_is_read(tmp_path: Path) -> None:
    sender, worker = Notes(tmp_path / "s.notes"), Notes(tmp_path / "w.notes")
    for words in (
        "send m a again 1.0", "sent new - 1.5", "send m b replace 2.0", "unknown 2.5", "send m c redrive 3.0",
    ):  # fmt: skip
        sender.add(*words.split())
    for words in (
        "got m a 1.0 1.5", "settle ack 1.75", "settled", "got m b 2.0 2.5", "got m c 8.0 8.5",
        "settle nack 8.75",
    ):  # fmt: skip
        worker.add(*words.split())
    told = story(tmp_path, {"s": 4.0, "w": 9.0})
    assert told.sends == [
        Send("m", "a", "again", 1.0, 1.5, "new", "-"),
        Send("m", "b", "replace", 2.0, 2.5 + LATE),
        Send("m", "c", "redrive", 3.0, 4.0 + LATE),
    ]
    assert told.runs == [
        Run("m", "a", 1.0, 1.5, 1.75, "ack", settled=True),
        Run("m", "b", 2.0, 2.5, 2.0 + LEASE),
        Run("m", "c", 8.0, 8.5, 8.75, "nack"),
    ]
