"""A table in one case: each row runs as a case of its own would, and costs less."""

from __future__ import annotations

import functools
import inspect
import reprlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Self

import pytest

from tests.audit import audit_all

ON_A_SERVER = {"broker", "sync_broker", "async_broker", "raw", "clock"}
SHORT = reprlib.Repr()
SHORT.maxstring = SHORT.maxother = 200

Test = Callable[..., Any]


def each(names: str, values: Iterable[Any]) -> Callable[[Test], Test]:
    """Run a test with one row after the other, in place of `parametrize`, which makes a case of each.

    Every row meets an empty server at the same time, and its keys are audited. All rows have their turn,
    whichever fail. What a fixture puts on the server is gone after the first row: such a test needs
    `parametrize`.

    Args:
        names: of the columns, with commas between them.
        values: the rows; of a single column its values.

    Raises:
        BaseExceptionGroup: of the case: the failures, each with a note of its row.
    """
    columns = names.split(", ")
    table = [dict(zip(columns, (row if len(columns) > 1 else [row]), strict=True)) for row in values]

    def decorate(test: Test) -> Test:
        own = [it for it in inspect.signature(test).parameters.values() if it.name not in columns]
        asked = {parameter.name for parameter in own}
        added = {"raw", "clock"} - asked if asked & ON_A_SERVER else set[str]()

        def rows(fixtures: dict[str, Any]) -> _Rows:
            found = _Rows(fixtures.get("raw"), fixtures.get("clock"))
            for name in added:
                del fixtures[name]
            return found

        if inspect.iscoroutinefunction(test):

            @functools.wraps(test)
            async def case(**fixtures: Any) -> None:
                with rows(fixtures) as turns:
                    for row in table:
                        with turns.turn(row):
                            await test(**fixtures, **row)

        else:

            @functools.wraps(test)
            def case(**fixtures: Any) -> None:
                with rows(fixtures) as turns:
                    for row in table:
                        with turns.turn(row):
                            test(**fixtures, **row)

        more = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in sorted(added)]
        case.__signature__ = inspect.Signature([*own, *more])  # type: ignore[attr-defined]
        return case

    return decorate


class _Rows:
    """The turns of the rows, and what failed."""

    def __init__(self, raw: Any, clock: Any) -> None:
        self._raw, self._clock = raw, clock
        self._begin = clock.now if clock else 0
        self._failures: list[BaseException] = []

    @contextmanager
    def turn(self, row: dict[str, Any]) -> Iterator[None]:
        """Of one row."""
        try:
            yield
            if self._raw is not None:
                audit_all(self._raw)
        except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - of all rows, once all had their turn
            error.add_note(f"in the row {', '.join(f'{name}={SHORT.repr(it)}' for name, it in row.items())}")
            self._failures.append(error)
        if self._raw is not None:
            self._raw.flushall()
            self._clock.set(self._begin)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._failures:
            message = "rows failed"
            raise BaseExceptionGroup(message, self._failures)
