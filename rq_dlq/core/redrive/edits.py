"""Edits of bodies: by a merge patch, or of the shown body, without its secrets."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, cast

import msgspec

from rq_dlq.errors import InvalidInput, InvalidMessage
from rq_dlq.values.codec import NO_JSON
from rq_dlq.values.masks import HIDDEN, Masks


def merging(patch: Any) -> Callable[[Any], Any]:
    """The edit that merges this into each body (RFC 7396); a body that is not a JSON object is refused."""

    def edit(body: Any) -> Any:
        if isinstance(body, bytes):
            raise InvalidMessage("the body is bytes, not JSON")
        if not isinstance(body, dict):
            raise InvalidMessage("the body is not a JSON object, which a merge patch changes")
        return merged(body, patch)

    return edit


def merged(body: Any, patch: Any) -> Any:
    """The body with a merge patch: null removes a name, an object is merged, other values replace."""
    if not isinstance(patch, dict):
        return patch
    found: dict[str, Any] = dict(body) if isinstance(body, dict) else {}  # pyright: ignore[reportUnknownArgumentType]
    for name, value in patch.items():  # pyright: ignore[reportUnknownVariableType]
        if value is None:
            found.pop(name, None)  # pyright: ignore[reportUnknownArgumentType]
        else:
            found[name] = merged(found.get(name), value)  # pyright: ignore[reportUnknownArgumentType]
    return found


def rewriting(shown: Any, edited: Any) -> Callable[[Any], Any]:
    """The edit of a user who saw `shown`, the body without its secrets, and changed it to `edited`.

    Unchanged parts keep their values, including hidden ones. A body that has changed since is not edited.
    """

    def edit(body: Any) -> Any:
        if isinstance(body, bytes):
            raise InvalidMessage("the body is bytes, not JSON")
        return _carried(body, shown, edited)

    return edit


def _carried(body: Any, shown: Any, edited: Any) -> Any:
    if _json(shown) == _json(edited):
        return body
    if all(isinstance(one, dict) for one in (body, shown, edited)):
        now, before, after = cast("tuple[dict[str, Any], ...]", (body, shown, edited))
        return {
            name: _carried(now[name], before[name], value)
            if name in now and name in before
            else _plain(value)
            for name, value in after.items()
        }
    if all(isinstance(one, list) for one in (body, shown, edited)):
        rows = cast("tuple[list[Any], ...]", (body, shown, edited))
        if len({*map(len, rows)}) == 1:
            return [_carried(*row) for row in zip(*rows, strict=True)]
    return _plain(edited)


def exposes(before: Any, after: Any, masks: Masks) -> bool:
    """Whether an edit makes a hidden value visible where it stands, as a new name beside it may."""
    return _exposes(before, masks.value(before), after, masks.value(after))


def _exposes(before: Any, seen_before: Any, after: Any, seen_after: Any) -> bool:
    if before == seen_before:
        return False
    if isinstance(before, dict) and isinstance(after, dict):
        others = cast("dict[str, Any]", after)
        return any(
            _exposes(part, _part(seen_before, name), others[name], _part(seen_after, name))
            for name, part in cast("dict[str, Any]", before).items()
            if name in others
        )
    if isinstance(before, list) and isinstance(after, list):
        pairs = zip(cast("Iterable[Any]", before), cast("Iterable[Any]", after), strict=False)
        return any(
            _exposes(part, _part(seen_before, n), other, _part(seen_after, n))
            for n, (part, other) in enumerate(pairs)
        )
    return bool(before == after == seen_after)


def _part(seen: Any, name: Any) -> Any:
    """What is visible of a part; of a whole that is hidden, nothing."""
    return cast("Any", seen)[name] if isinstance(seen, dict | list) else HIDDEN


def _plain(value: Any) -> Any:
    """A value written by a person, which must not be the mark of a hidden one."""
    if HIDDEN.encode() in _json(value):
        raise InvalidInput(f"a hidden value ({HIDDEN}) would be lost: leave its field in place")
    return value


def _json(value: Any) -> bytes:
    return msgspec.json.encode(value, order="sorted")


def read_json(text: str, what: str) -> Any:
    """A JSON text of a person.

    Raises:
        InvalidInput: it is not JSON.
    """
    try:
        return msgspec.json.decode(text)
    except NO_JSON as error:
        raise InvalidInput(f"{what} is not JSON: {error}") from None
