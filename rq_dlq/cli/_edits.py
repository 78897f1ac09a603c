"""`--edit`: changes bodies by a JSON patch or a merge patch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from rq_dlq.cli._extras import of_extra
from rq_dlq.core.redrive.edits import merging
from rq_dlq.errors import InvalidMessage
from rq_dlq.values.codec import NO_JSON

if TYPE_CHECKING:
    from collections.abc import Callable

FORMS = "a JSON patch ([…], RFC 6902) or a merge patch ({…}, RFC 7396), or a file with one"


def edit_of(text: str) -> Callable[[Any], Any]:
    """The edit that the option describes.

    Args:
        text: a patch, or the name of a file with one.

    Raises:
        UsageError: the text is neither.
        ConfigurationError: a JSON patch needs a package that is not installed.
    """
    if text.lstrip()[:1] not in {"[", "{"}:
        try:
            text = Path(text).read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise click.UsageError(f"cannot read {text!r} ({why}): --edit takes {FORMS}") from None
    try:
        patch: Any = msgspec.json.decode(text)
    except NO_JSON as error:
        raise click.UsageError(f"not JSON ({error}): --edit takes {FORMS}") from None
    if isinstance(patch, dict):
        return merging(patch)
    if isinstance(patch, list):
        return _patching(_json_patch(patch))  # pyright: ignore[reportUnknownArgumentType]
    raise click.UsageError(f"{msgspec.json.encode(patch).decode()} is not an edit: --edit takes {FORMS}")


def _patching(change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """An edit of JSON bodies."""

    def edit(body: Any) -> Any:
        if isinstance(body, bytes):
            raise InvalidMessage("the body is bytes, not JSON")
        return change(body)

    return edit


def _json_patch(operations: list[Any]) -> Callable[[Any], Any]:
    with of_extra("patch", "a JSON patch"):
        import jsonpatch  # noqa: PLC0415
        from jsonpointer import JsonPointerException  # noqa: PLC0415

    try:
        return jsonpatch.JsonPatch(operations).apply
    except (jsonpatch.JsonPatchException, JsonPointerException) as error:
        raise click.UsageError(f"not a JSON patch: {error}") from None
