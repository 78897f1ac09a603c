"""A table as one case: `each` tries every row of it, and a failure names all rows that failed."""

from __future__ import annotations

import functools
import inspect
import reprlib
from collections.abc import Callable, Iterable
from typing import Any

import pytest

_SHORT = reprlib.Repr()  # of any object, also of one whose own `repr` fails
_SHORT.maxstring = _SHORT.maxother = 100
_SHORT.maxlist = _SHORT.maxtuple = _SHORT.maxdict = 10


def each(names: str, rows: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """As `pytest.mark.parametrize`, without what a case costs. The rows share the fixtures of the test.

    Args:
        names: of the arguments that a row gives, with commas between them.
        rows: the value, or a tuple of them.
    """
    words, table = names.replace(",", " ").split(), list(rows)
    assert table, "a table without rows checks nothing"

    def of_all(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def tried(**fixtures: Any) -> None:
            failures: list[BaseException] = []
            for row in table:
                values = row if len(words) > 1 else (row,)
                try:
                    test(**fixtures, **dict(zip(words, values, strict=True)))
                except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - told below
                    error.add_note(f"{test.__name__}, {names} = {_SHORT.repr(row)}")
                    failures.append(error)
            if len(failures) == 1:
                raise failures[0]
            if failures:
                raise BaseExceptionGroup(f"{len(failures)} of {len(table)} rows", failures)

        signature = inspect.signature(test)
        others = [it for name, it in signature.parameters.items() if name not in words]
        tried.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
        return tried

    return of_all
