"""Which of its four ways a test runs by default: a broker of either colour, on either kind of server.

The blocking colour is made from the awaiting one (tests/colours_twin.py), and what users have is a real server. So a
test runs there in one colour: three of four tests in the awaiting one, the fourth in what is made from it. A quarter
of the tests also meet fakeredis, in the other colour. Which ones is drawn by a hash of the test's name: neither order
nor parameters change it. A file or a test that needs more says so, with the reason:

    both_colours("...")   what the files `own.py` do by hand, and what threads and forks do
    on_fakeredis("...")   what is said of fakeredis itself

The rest are the other ways: `pytest -m other_way`. They are only made where `-m` does not leave them out: making them
takes as long as collecting all else. A way that is named, as in `pytest 'test_x.py::test_y[sync-real]'`, runs.
"""

from __future__ import annotations

import zlib
from itertools import product

import pytest

VALUES = {"broker": ("sync", "async"), "backend": ("fake", "real")}
"""The fixtures, and what they are parametrized with where a file does not say otherwise."""

both_colours = pytest.mark.both_colours
on_fakeredis = pytest.mark.on_fakeredis


def chosen(test: str, *, in_both: bool = False, on_fake: bool = False) -> list[dict[str, str]]:
    """The ways that a test runs by default."""
    draw = zlib.crc32(test.encode())
    first, second = ("sync", "async") if draw % 4 == 0 else ("async", "sync")
    ways = [(first, "real")]
    if in_both:
        ways.append((second, "real"))
    if on_fake or draw // 4 % 4 == 0:
        ways.append((second, "fake"))
    return [{"broker": colour, "backend": server} for colour, server in ways]


def make(metafunc: pytest.Metafunc) -> None:
    """Parametrize a test with its ways: with those of its fixtures, in their order, that nobody else sets."""
    test = metafunc.definition
    set_here = {
        name.strip()
        for mark in test.iter_markers("parametrize")
        for name in (mark.args[0].split(",") if isinstance(mark.args[0], str) else mark.args[0])
    }
    names = [name for name in metafunc.fixturenames if _is_open(metafunc, name) and name not in set_here]
    if not names:
        return
    marks = {"in_both": both_colours, "on_fake": on_fakeredis}
    ways = chosen(test.nodeid, **{key: test.get_closest_marker(mark.name) is not None for key, mark in marks.items()})
    default = {tuple(map(way.get, names)) for way in ways if "backend" in names or way["backend"] == "real"}
    every = [*product(*(VALUES[name] for name in names))]
    if _is_named(metafunc):
        rows = every
    elif "not other_way" in metafunc.config.option.markexpr:
        rows = [row for row in every if row in default]
    else:
        rows = [row if row in default else pytest.param(*row, marks=pytest.mark.other_way) for row in every]
    # As a mark, and the first: pytest then takes no parameters from these fixtures, and the names begin with the way.
    test.add_marker(pytest.mark.parametrize(names, rows, indirect=True), append=False)


def _is_open(metafunc: pytest.Metafunc, name: str) -> bool:
    """Whether this is a fixture with all its values: a file may have one of its own, with fewer or none."""
    definitions = metafunc._arg2fixturedefs.get(name)
    return name in VALUES and bool(definitions) and definitions[-1].params == VALUES[name]


def _is_named(metafunc: pytest.Metafunc) -> bool:
    """Whether the command line names a way of this test."""
    config = metafunc.config
    test = config.rootpath / metafunc.definition.nodeid
    return any(str(config.invocation_params.dir / arg).startswith(f"{test}[") for arg in config.args)
