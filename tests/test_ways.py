"""Which three of its four ways a test runs by default."""

from __future__ import annotations

from tests import ways


def test_each_test_meets_redis_in_both_colours_and_fakeredis_in_one() -> None:
    met = set[str]()
    for name in "abcdefghijklmnop":
        test = f"tests/test_x.py::test_{name}"
        assert all(ways.is_chosen(test, colour, "real") for colour in ways.COLOURS)
        (colour,) = (colour for colour in ways.COLOURS if ways.is_chosen(test, colour, "fake"))
        met.add(colour)
    assert met == {*ways.COLOURS}
