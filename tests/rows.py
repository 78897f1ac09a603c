"""One case for many rows, where a case for each row costs more than what it checks."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any


def for_each(names: str | tuple[str, ...], rows: Iterable[Any]) -> Callable[[Callable[..., Any]], Any]:
    """Run a test once, with each of these rows; its failure names the row.

    In place of `pytest.mark.parametrize`, which it resembles. The rows share the fixtures of the test.

    Args:
        names: the arguments that a row gives; one name: each row is its value.
        rows: the values. They are tried in this order, up to the first that fails.
    """
    kept, given_names = [*rows], {names} if isinstance(names, str) else {*names}
    assert kept, "a test without rows tries nothing"

    @contextmanager
    def told(row: Any) -> Iterator[dict[str, Any]]:
        given = {names: row} if isinstance(names, str) else dict(zip(names, row, strict=True))
        try:
            yield given
        except BaseException as error:
            error.add_note(f"the row: {given}")
            raise

    def of(test: Callable[..., Any]) -> Any:
        @wraps(test)
        def plain(**fixtures: Any) -> None:
            for row in kept:
                with told(row) as given:
                    test(**fixtures, **given)

        @wraps(test)
        async def awaiting(**fixtures: Any) -> None:
            for row in kept:
                with told(row) as given:
                    await test(**fixtures, **given)

        run: Any = awaiting if inspect.iscoroutinefunction(test) else plain
        signature = inspect.signature(test)
        fixtures = [one for name, one in signature.parameters.items() if name not in given_names]
        run.__signature__ = signature.replace(parameters=fixtures)
        return run

    return of
