"""Which failures are of one kind: where it failed, and what its text says without its variable parts."""

from __future__ import annotations

import hashlib
import sysconfig
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rq_dlq.values.wording import wording

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

PLACE = 6  # of the twelve digits: those for the class and the place
FRAMES = 10

# Errors whose quoted names say what is wrong: without them all missing keys would be one kind.
NAMING = (KeyError, AttributeError, NameError, ImportError, TypeError)
_NAMING = frozenset(kind.__name__ for kind in (*NAMING, ModuleNotFoundError, UnboundLocalError))

_OWN = str(Path(__file__).parent.parent)
_LIBRARIES = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})


class Raised(NamedTuple):
    """An error, as far as it says what kind of failure it is of.

    Attributes:
        error: the class, with its module unless it is a built-in.
        place: see `place_of`.
        naming: the quoted names of the text say what is wrong, as in a KeyError.
    """

    error: str
    text: str
    place: str = ""
    naming: bool = False

    @property
    def origin(self) -> str:
        """The class and the place."""
        return f"{self.error}|{self.place}"

    def wording(self, values: Iterable[str]) -> str:
        """The text without its variable parts."""
        naming = self.naming or self.error.rpartition(".")[2] in _NAMING
        return wording(self.text, values, naming=naming)


def fingerprint(
    error: str,
    text: str,
    place: str = "",
    values: Iterable[str] = (),
    *,
    naming: bool = False,
    behind: Iterable[Raised] = (),
) -> str:
    """Twelve hex digits that failures of one kind share.

    The first six say which class of error was raised in which functions of the user's code; the rest, what
    the text says without its variable parts. Both also say so of the errors behind it.

    Args:
        error, text, place, naming: see `Raised`.
        values: texts from the message itself: its id, its headers, the scalars of its body.
        behind: its causes, and the errors of a group; how many of one kind, and in which order, differs.
    """
    first, others = Raised(error, text, place, naming), [*behind]
    values = [*values]
    origins = "".join(sorted({f"|{one.origin}" for one in others}))
    wordings = "".join(sorted({f"|{one.wording(values)}" for one in others}))
    return _digest(first.origin + origins)[:PLACE] + _digest(first.wording(values) + wordings)[PLACE:]


def chosen(word: str) -> str:
    """The fingerprint for what the user says the kind is."""
    return _digest(f"chosen|{word}")


def is_of(mark: str, group: str) -> bool:
    """Whether a fingerprint is of a group: the same, or that of its class and place."""
    return mark == group or (len(group) == PLACE and mark.startswith(group))


def _digest(text: str) -> str:
    return hashlib.sha1(text.encode(errors="replace"), usedforsecurity=False).hexdigest()[:12]


def from_user(trace: TracebackType | None) -> TracebackType | None:
    """A traceback without our own frames at its beginning; all of it, if there are no others."""
    first = trace
    while first is not None and first.tb_frame.f_code.co_filename.startswith(_OWN):
        first = first.tb_next
    return first or trace


def place_of(trace: TracebackType | None) -> str:
    """The functions of the user's code that were running; where in a library it failed does not matter.

    The outermost function, which is the handler, is the user's wherever it is installed, and so is the rest
    of its package.
    """
    frames = [(frame.f_code.co_filename, frame.f_code.co_name) for frame, _ in traceback.walk_tb(trace)]
    own = [(file, name) for file, name in frames if not file.startswith((_OWN, "<frozen"))]
    while len(own) > 1 and _is_standard(own[0][0]):  # what runs a handler, such as a thread pool
        own.pop(0)
    package = _package(own[0][0]) if own else ""
    users = [
        (file, name) for file, name in own if not file.startswith(_LIBRARIES) or _package(file) == package
    ]
    told = [f"{Path(file).name}:{name}" for file, name in users]
    once = [frame for n, frame in enumerate(told) if n == 0 or told[n - 1] != frame]  # recursion counts once
    return "|".join(once[-FRAMES:])


def _is_standard(file: str) -> bool:
    return file.startswith(_LIBRARIES) and not _package(file)


def _package(file: str) -> str:
    """The installed package that a file belongs to; empty: it is not in site-packages."""
    return file.partition("-packages/")[2].partition("/")[0]
