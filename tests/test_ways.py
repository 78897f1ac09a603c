"""Which two of its four ways a test runs by default."""

from __future__ import annotations

from itertools import product

from tests import ways

ALL = [*product(ways.COLOURS, ways.SERVERS)]


def test_each_test_meets_both_colours_and_both_servers_and_tests_meet_all_four() -> None:
    chosen = {
        name: frozenset(way for way in ALL if ways.is_chosen(f"tests/test_x.py::test_{name}", *way))
        for name in "abcdefghijklmnop"
    }
    for pair in chosen.values():
        assert len(pair) == 2
        assert {colour for colour, _ in pair} == {*ways.COLOURS}
        assert {server for _, server in pair} == {*ways.SERVERS}
    assert frozenset[tuple[str, str]]().union(*chosen.values()) == {*ALL}
