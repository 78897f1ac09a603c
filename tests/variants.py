"""Which of its four variants a test runs by default: a broker of either colour, on either kind of server.

Nearly always the second variant shows what the first one did. What users have is a real server, and the
blocking colour is made from the awaiting one (tests/colours_twin.py). So a test runs on a real server in one
colour: three of four tests in the awaiting one, the fourth in the one that is made. A sixteenth of the tests
also runs on fakeredis, in the other colour. A hash of the test's name draws them: neither machine nor order,
other tests nor parameters change it. A file or a test that needs more says so, with the reason:

    both_colours("...")   what the files `own.py` do by hand, what threads and forks do
    on_fakeredis("...")   what must hold on fakeredis for each row of a table

The rest are the other variants: `pytest -m other_variant`, and `-m "other_variant or not other_variant"` runs
all. By default they are not even made, since that takes time. A variant that is named runs:
`pytest 'tests/test_x.py::test_y[sync-real]'`.

Mutants of the Lua meet the cases of the default run, so a fault that only another variant sees counts
as unseen.
"""

from __future__ import annotations

import zlib
from itertools import product

import pytest

VALUES = {"broker": ("sync", "async"), "backend": ("fake", "real")}
"""The fixtures that make the variants, with their values."""

both_colours = pytest.mark.both_colours
on_fakeredis = pytest.mark.on_fakeredis
FAKES = 16
"""One of so many tests also runs on fakeredis, where it takes three times as long."""


def chosen(test: str, *, in_both: bool = False, on_fake: bool = False) -> list[dict[str, str]]:
    """The variants that run by default: first the one on a real server that a test is never without."""
    draw = zlib.crc32(test.encode())
    first, second = ("sync", "async") if draw % 4 == 0 else ("async", "sync")
    variants = [(first, "real")]
    if in_both:
        variants.append((second, "real"))
    if on_fake or draw // 4 % FAKES == 0:
        variants.append((second, "fake"))
    return [{"broker": colour, "backend": server} for colour, server in variants]


def make(metafunc: pytest.Metafunc) -> None:
    """Parametrize a test with its variants, as far as neither it nor its file sets them."""
    names = [name for name in VALUES if _is_open(metafunc, name)]
    if not names:
        return
    names.sort(key=metafunc.fixturenames.index)
    test = metafunc.definition
    in_both, on_fake = (
        test.get_closest_marker(mark.name) is not None for mark in (both_colours, on_fakeredis)
    )
    variants = chosen(test.nodeid, in_both=in_both, on_fake=on_fake)
    if "backend" not in names:  # then only the colour is drawn
        variants = [variant for variant in variants if variant["backend"] == "real"]
    config = metafunc.config
    named, usual = _is_named(metafunc), config.option.markexpr in config.getini("addopts")
    default = {tuple(variant[name] for name in names) for variant in variants}
    rows: list[object] = []
    for row in product(*(VALUES[name] for name in names)):
        if row in default or named:
            rows.append(row)
        elif not usual:
            rows.append(pytest.param(*row, marks=pytest.mark.other_variant))
    # As a mark: where there is one, pytest takes no parameters from the fixtures. As the first: so the
    # variant is the first part of the id.
    test.add_marker(pytest.mark.parametrize(names, rows, indirect=True), append=False)


def _is_open(metafunc: pytest.Metafunc, name: str) -> bool:
    """Whether a test has this fixture, with all its values: a file's own may have fewer or none."""
    fixtures = metafunc._arg2fixturedefs.get(name)
    if not fixtures or fixtures[-1].params != VALUES[name]:
        return False
    given = [mark.args[0] for mark in metafunc.definition.iter_markers("parametrize")]
    return not any(name in ([names] if isinstance(names, str) else names) for names in given)


def _is_named(metafunc: pytest.Metafunc) -> bool:
    """Whether the command line names a variant of this test."""
    config = metafunc.config
    test = config.rootpath / metafunc.definition.nodeid
    return any(str(config.invocation_params.dir / arg).startswith(f"{test}[") for arg in config.args)
