"""Groups failures by kind: the place in the code, and the text without its variable parts.

A fingerprint has two halves. Six digits stand for the class of the error and the functions of the user's code
that were running; six for the wording (`values/wording.py`). `group=` takes either the whole, or the first
half: all failures of one class of error at one place.

- *`Redeliver`, and `Poison` without a text*, only say how to treat a failure. So the error that they were
  raised for is recorded in their place (their cause, or the error that was being handled); otherwise all such
  failures would be of one kind.
- *The place* is the chain of the user's functions, without those of libraries: one decoding error in two
  handlers is two kinds, and it does not matter how deep in the decoder it was raised. If the service itself
  is installed among the packages, the package of the handler counts as the user's code. Recursion counts
  once.
- *What is behind an error counts, too*: its causes (`raise … from`, or while another was handled) and the
  errors of a group, ten at most, as a set: how many of a TaskGroup fail, and in which order, is chance. A
  TaskGroup has one text for all failures, and a service often one wrapper. So the message that is kept ends
  with the last cause, unless it names it already.
"""

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

PLACE = 6  # how many of the twelve digits stand for the class and the place
FRAMES = 10

# Errors whose quoted names identify the problem: otherwise all missing keys would be one kind.
NAMING = (KeyError, AttributeError, NameError, ImportError, TypeError)
_NAMING = frozenset(kind.__name__ for kind in (*NAMING, ModuleNotFoundError, UnboundLocalError))

_OWN = str(Path(__file__).parent.parent)
_LIBRARIES = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})


class Raised(NamedTuple):
    """The parts of an error that determine the kind of failure.

    Attributes:
        error: the class, with its module unless it is a built-in.
        place: see `place_of`.
        naming: the quoted names in the text identify the problem, as in a KeyError.
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
    """Twelve hex digits that are equal for the same kind of failure.

    The first six depend on the class of the error and the functions of the user's code; the others on the
    text without its variable parts. Both also depend on the causes of the error.

    Args:
        error, text, place, naming: see `Raised`.
        values: texts from the message itself: its id, its headers, the scalars of its body.
        behind: its causes, and the errors of a group; their number and order do not matter.
    """
    first, others = Raised(error, text, place, naming), [*behind]
    values = [*values]
    origins = "".join(sorted({f"|{one.origin}" for one in others}))
    wordings = "".join(sorted({f"|{one.wording(values)}" for one in others}))
    return _digest(first.origin + origins)[:PLACE] + _digest(first.wording(values) + wordings)[PLACE:]


def chosen(word: str) -> str:
    """The fingerprint for a kind named by the user."""
    return _digest(f"chosen|{word}")


def is_of(mark: str, group: str) -> bool:
    """Whether a fingerprint belongs to a group: it is the same, or the group is its class and place."""
    return mark == group or (len(group) == PLACE and mark.startswith(group))


def _digest(text: str) -> str:
    return hashlib.sha1(text.encode(errors="replace"), usedforsecurity=False).hexdigest()[:12]


def from_user(trace: TracebackType | None) -> TracebackType | None:
    """A traceback without this package's frames at its beginning; all of it, if there are no others."""
    first = trace
    while first is not None and first.tb_frame.f_code.co_filename.startswith(_OWN):
        first = first.tb_next
    return first or trace


def place_of(trace: TracebackType | None) -> str:
    """The running functions of the user's code; the place within a library does not matter.

    The outermost function, the handler, counts as the user's code even if it is installed, and so does the
    rest of its package.
    """
    frames = [(frame.f_code.co_filename, frame.f_code.co_name) for frame, _ in traceback.walk_tb(trace)]
    own = [(file, name) for file, name in frames if not file.startswith((_OWN, "<frozen"))]
    while len(own) > 1 and _is_standard(own[0][0]):  # code that runs handlers, such as a thread pool
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
