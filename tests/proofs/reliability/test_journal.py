"""The sums over the journals: each fault is found, and what is no fault is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.proofs.reliability.journal import Event, Journal, Sums, last, sums

Story = list[tuple[str, Event, str]]  # the process, the event, the ids

WELL: Story = [
    ("sender", "send", "a b"),
    ("sender", "sent", "a b"),
    ("worker", "got", "a b"),
    ("worker", "ack", "a b"),
    ("worker", "acked", "a b"),
]


def told(directory: Path, story: Story, remaining: str = "") -> Sums:
    for name, event, ids in story:
        journal = Journal(directory, name)
        journal.note(event, ids.split())
        journal.close()
    return sums(directory, remaining.split())


def test_all_is_well(tmp_path: Path) -> None:
    found = told(tmp_path, WELL)
    assert found == Sums(acknowledged=2, entered=2, settled=2)
    assert found.well


@pytest.mark.parametrize(
    ("story", "remaining"),
    [
        (WELL[:2], "b"),
        (WELL[:3], "b"),  # delivered, and gone: whose ack was it?
        ([*WELL[:4], ("worker", "acked", "b"), ("worker", "stale", "a")], ""),
    ],
    ids=["never delivered", "never acked", "the ack was refused"],
)
def test_lost(tmp_path: Path, story: Story, remaining: str) -> None:
    found = told(tmp_path, story, remaining)
    assert found.lost == ["a"]
    assert not found.well


@pytest.mark.parametrize(
    ("story", "remaining"),
    [(WELL[:2], "a b"), (WELL[:4], ""), (WELL[:3], "a b")],
    ids=["it waits", "who acked it was killed", "it was delivered, and waits"],
)
def test_not_lost(tmp_path: Path, story: Story, remaining: str) -> None:
    assert told(tmp_path, story, remaining).well


@pytest.mark.parametrize(
    "story",
    [
        [*WELL, ("worker", "got", "x")],
        [*WELL, ("sender", "send", "x"), ("sender", "refused", "x"), ("worker", "got", "x")],
    ],
    ids=["nobody sent it", "its sender was told that it is not there"],
)
def test_unexpected(tmp_path: Path, story: Story) -> None:
    found = told(tmp_path, story)
    assert found.unexpected == ["x"]
    assert not found.well


def test_unexpected_remains(tmp_path: Path) -> None:
    assert told(tmp_path, WELL, "x").unexpected == ["x"]


def test_settled_twice(tmp_path: Path) -> None:
    twice: Story = [("zombie", "got", "a"), ("zombie", "ack", "a"), ("zombie", "acked", "a")]
    found = told(tmp_path, WELL + twice)
    assert (found.settled_twice, found.duplicated) == (["a"], 1)
    assert not found.well


def test_what_another_program_sends_after_its_ack_is_a_new_message(tmp_path: Path) -> None:
    again: Story = [("next", "send", "a"), ("next", "sent", "a"), *WELL[2:]]
    found = told(tmp_path, [*WELL, *again])
    assert (found.settled_twice, found.resent) == (["b"], 1)


def test_an_ack_whose_reply_was_lost_may_find_what_another_has_done(tmp_path: Path) -> None:
    again: Story = [
        ("cut", "got", "a"),
        ("cut", "ack", "a"),
        ("cut", "indeterminate", "a"),
        ("cut", "acked", "a"),
    ]
    found = told(tmp_path, WELL + again)
    assert (found.indeterminate, found.duplicated, found.well) == (1, 1, True)


def test_early(tmp_path: Path) -> None:
    found = told(tmp_path, [*WELL, ("worker", "early", "a")])
    assert found.early == 1
    assert not found.well


def test_a_late_ack_that_was_refused_is_no_fault(tmp_path: Path) -> None:
    late: Story = [("zombie", "got", "a"), ("zombie", "ack", "a"), ("zombie", "stale", "a")]
    found = told(tmp_path, WELL + late)
    assert (found.stale, found.duplicated, found.settled, found.well) == (1, 1, 2, True)


def test_sends_of_unknown_outcome(tmp_path: Path) -> None:
    """One was there, of one nothing was ever seen, one was sent again."""
    story: Story = [("killed", "send", "x y z"), ("next", "send", "z"), ("next", "sent", "z")]
    found = told(tmp_path, [*WELL, *story], "x z")
    assert (found.acknowledged, found.recovered, found.resent, found.entered) == (3, 1, 1, 4)
    assert found.well


def test_a_line_without_an_end_says_nothing(tmp_path: Path) -> None:
    told(tmp_path, WELL)
    with (tmp_path / "worker.journal").open("a") as file:
        file.write("got a nd no more")
    assert sums(tmp_path, []) == Sums(acknowledged=2, entered=2, settled=2)
    assert last(tmp_path, "worker") == ("acked", ["a", "b"])
    assert last(tmp_path, "nobody") == ("", [])
