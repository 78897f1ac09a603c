"""A table as one case: every row of it is tried, and a failure names all rows that failed."""

from __future__ import annotations

import functools
import inspect
import reprlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.audit import audit_all

Test = Callable[..., Any]
ON_A_SERVER = {"broker", "sync_broker", "async_broker", "raw", "clock"}
SHORT = reprlib.Repr()  # of any object, also of one whose own `repr` fails
SHORT.maxstring = SHORT.maxother = 200
SHORT.maxlist = SHORT.maxtuple = SHORT.maxdict = 10


def each_row(
    names: str | tuple[str, ...], rows: Iterable[Any], *, afresh: bool = False
) -> Callable[[Test], Test]:
    """As `pytest.mark.parametrize`, without what a case costs. The rows share the fixtures of the test.

    Args:
        names: of the arguments that a row gives, with commas between them, or a tuple of them.
        rows: the value, or a tuple of them.
        afresh: see `each_row_afresh`.

    Raises:
        BaseExceptionGroup: of the case: its failures, each with a note of its row; one alone as it is.
    """
    words = names.replace(",", " ").split() if isinstance(names, str) else [*names]
    table = [dict(zip(words, row if len(words) > 1 else (row,), strict=True)) for row in rows]
    assert table, "a table without rows checks nothing"

    def of_all(test: Test) -> Test:
        own = [it for it in inspect.signature(test).parameters.values() if it.name not in words]
        asked = {it.name for it in own}
        added = sorted({"raw", "clock"} - asked) if afresh and asked & ON_A_SERVER else []

        def turns(fixtures: dict[str, Any]) -> _Turns:
            raw, clock = fixtures.get("raw"), fixtures.get("clock")
            for name in added:
                del fixtures[name]
            return _Turns(test.__name__, len(table), *((raw, clock) if afresh else (None, None)))

        @functools.wraps(test)
        def plain(**fixtures: Any) -> None:
            rounds = turns(fixtures)
            for row in table:
                with rounds.turn(row):
                    test(**fixtures, **row)
            rounds.end()

        @functools.wraps(test)
        async def awaiting(**fixtures: Any) -> None:
            rounds = turns(fixtures)
            for row in table:
                with rounds.turn(row):
                    await test(**fixtures, **row)
            rounds.end()

        case: Any = awaiting if inspect.iscoroutinefunction(test) else plain
        more = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in added]
        case.__signature__ = inspect.Signature([*own, *more])
        return case  # type: ignore[no-any-return]

    return of_all


def each_row_afresh(names: str | tuple[str, ...], rows: Iterable[Any]) -> Callable[[Test], Test]:
    """As `each_row`, but every row meets an empty server at the same time, and its keys are audited.

    What a fixture puts on the server is gone after the first row: such a test needs `parametrize`.
    """
    return each_row(names, rows, afresh=True)


class _Turns:
    """The turns of the rows, and what failed; with a server (`raw`) that is emptied after each."""

    def __init__(self, test: str, rows: int, raw: Any, clock: Any) -> None:
        self._test, self._rows, self._raw, self._clock = test, rows, raw, clock
        self._begin = clock.now if clock else 0
        self._failures: list[BaseException] = []

    @contextmanager
    def turn(self, row: dict[str, Any]) -> Iterator[None]:
        """Of one row."""
        try:
            yield
            if self._raw is not None:
                audit_all(self._raw)
        except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - told once all had their turn
            said = ", ".join(f"{name}={SHORT.repr(value)}" for name, value in row.items())
            error.add_note(f"{self._test}, in the row {said}")
            self._failures.append(error)
        if self._raw is not None:
            self._raw.flushall()
            self._clock.set(self._begin)

    def end(self) -> None:
        """Raise what failed."""
        if len(self._failures) == 1:
            raise self._failures[0]
        if self._failures:
            raise BaseExceptionGroup(f"{len(self._failures)} of {self._rows} rows", self._failures)
