"""How a server runs the verbs: as Redis Functions or, while it has none, as a script of the same text."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from redis import exceptions

from rq_dlq._redis.errors import code_of
from rq_dlq._scripts import Joined
from rq_dlq.errors import MissingRights

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rq_dlq._scripts import Form
    from rq_dlq._scripts.verb import Library, Verb, Verbs

AGAIN = 60.0  # seconds after which it is tried again to run functions
NO_FUNCTIONS = "it has none before version 7"
# How the verbs run; if a user cannot run them in one way, the next one is tried.
_WAYS: tuple[Form, ...] = ("functions", "flags_ro", "flags")
_WAY_OF = {b"FCALL": 0, b"FCALL_RO": 0, b"FUNCTION": 0, b"EVALSHA_RO": 1}
# The states in which a server accepts no library: those that read still run as a script, and without memory
# those that drain.
_REFUSES = frozenset({"OOM", "NOREPLICAS", "MISCONF", "READONLY"})
logger = logging.getLogger("rq_dlq")


_said: set[str] = set()


def for_server(verbs: Verbs, version: tuple[int, ...]) -> Verbs:
    """The verbs for a server of this version."""
    if not isinstance(verbs, Joined):
        return verbs
    fit = verbs.for_server(version)
    if fit.form == "functions":
        return Functions(fit)
    _say(fit)
    return fit


def _say(verbs: Verbs) -> None:
    """Log how the verbs run, once in a process: a worker has a broker of each colour."""
    if (text := how(verbs)) not in _said:
        _said.add(text)
        logger.info("the broker runs %s", text)


def how(verbs: Verbs) -> str:
    """How the server runs the verbs, as the last calls found: the end of a sentence."""
    if isinstance(verbs, Functions) and not verbs.reason:
        return f"as Redis Functions of the library {verbs.library.name}"
    reason = verbs.reason if isinstance(verbs, Functions) else NO_FUNCTIONS
    return f"as a script, which takes longer than as Redis Functions ({reason})"


def is_unknown(reply: object) -> bool:
    """Whether the server does not have the script, or the function."""
    return isinstance(reply, exceptions.NoScriptError) or (
        isinstance(reply, exceptions.ResponseError) and str(reply).endswith("Function not found")
    )


def is_loaded(reply: Exception) -> bool:
    """Whether another client loaded the library in the meantime."""
    return "already exists" in str(reply)


class Functions:
    """The verbs for one server, or for the nodes of a cluster.

    Args:
        verbs: the verbs.

    Attributes:
        clock: seconds; tests pass another one.
        reason: what the server replied when it refused the functions; empty: they are in use.
        first: the way that is tried first, as in `_WAYS`; tests begin with the text.
    """

    first = 0

    def __init__(self, verbs: Joined) -> None:
        self.clock = time.monotonic
        self.reason = ""
        self._ways = [verbs.as_form(form) for form in _WAYS]
        self._way, self._until = self.first, 0.0

    def __getitem__(self, name: str) -> Verb:
        if self._way and self.clock() >= self._until:
            self.use_functions()
        way = self._ways[self._way]
        return way.known.get(name) or way[name]  # each call asks

    def names(self) -> list[str]:
        """The verbs, in alphabetical order."""
        return self._ways[0].names()

    @property
    def library(self) -> Library:
        """The text and the contracts."""
        return self._ways[0].library

    def use_functions(self) -> None:
        """Try functions again."""
        self._way, self.reason = self.first, ""

    def does_without(self, reply: object, command: Sequence[Any], verb: str) -> bool:
        """Whether this reply says that server or user cannot run a verb like this, but in another way.

        From then the verbs run in that way, for a minute.

        Args:
            reply: the reply to the command.
            command: that ran the verb, or was to load its library.
            verb: its name.
        """
        way = _WAY_OF.get(bytes(command[0]))
        if way is None or not isinstance(reply, Exception) or not self._is_refused(reply, command, verb):
            return False
        if self._way <= way:
            self._way, self._until = way + 1, self.clock() + AGAIN
            self.reason = self.reason or str(reply)
            _say(self)
        return True

    def _is_refused(self, reply: Exception, command: Sequence[Any], verb: str) -> bool:
        text = str(reply).lower()
        if isinstance(reply, exceptions.NoPermissionError):
            return any(word in text for word in ("fcall", "function", "evalsha_ro"))
        if command[0] != b"FUNCTION" or "unknown command" in text:
            return "unknown command" in text
        asked, code = self._ways[0][verb], code_of(reply)
        return code in _REFUSES and (asked.reads or (asked.drains and code == "OOM"))


def runs_otherwise(verbs: Verbs, reply: object, command: Sequence[Any]) -> bool:
    """Whether a verb that its server refused runs once it is loaded, or in another way."""
    return is_unknown(reply) or (
        isinstance(verbs, Functions) and verbs.does_without(reply, command, command[0].verb)
    )


def no_library(rights: Sequence[str]) -> MissingRights:
    """The error for a user who may only call functions, of a library that is not loaded.

    Args:
        rights: those that the user lacks for running the text as a script.
    """
    return MissingRights(
        "the server lacks the library of this version, and this Redis user may neither load it nor run it as "
        f"a script ({' '.join(rights)}): nothing was done. Run `rq-dlq load` as a user with the rights of "
        "maintenance, each time before a new version is rolled out",
        tuple(rights),
    )
