"""How a server runs the verbs: as Redis Functions or, while it has none, as a script of the same text."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, TypeAlias

from redis import exceptions

from rq_dlq._redis.errors import code_of

if TYPE_CHECKING:
    from rq_dlq._scripts import Script, Scripts

AGAIN = 60.0  # seconds after which it is tried again to run functions
# The states in which a server accepts no library, and the verbs still run.
_REFUSES = frozenset({"OOM", "NOREPLICAS", "MISCONF", "READONLY"})
logger = logging.getLogger("rq_dlq")


def for_server(scripts: Verbs, version: tuple[int, ...]) -> Verbs:
    """The verbs for a server of this version."""
    if isinstance(scripts, Functions):
        return scripts
    if scripts.form != "functions":
        return scripts.for_server(version)
    return (
        Functions(scripts.for_server(version))
        if version >= (7,)
        else scripts.as_form("text").for_server(version)
    )


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
        scripts: as functions.

    Attributes:
        clock: seconds; tests pass another one.
    """

    def __init__(self, scripts: Scripts) -> None:
        self.clock = time.monotonic
        self._functions, self._text, self.form = scripts, scripts.as_form("text"), scripts.form
        self._until = 0.0
        self._told = False

    def __getitem__(self, name: str) -> Script:
        return (self._text if self.clock() < self._until else self._functions)[name]

    def names(self) -> list[str]:
        """The verbs, in alphabetical order."""
        return self._functions.names()

    def does_without(self, reply: object) -> bool:
        """Whether this reply to a function, or to its library, says that the server, or its user, has none.

        From then the verbs run as a script, for a minute.
        """
        if not isinstance(reply, Exception) or self.clock() < self._until:
            return False
        text = str(reply).lower()
        denied = isinstance(reply, exceptions.NoPermissionError) and ("fcall" in text or "function" in text)
        if not (denied or "unknown command" in text or code_of(reply) in _REFUSES):
            return False
        self._until = self.clock() + AGAIN
        if not self._told:
            self._told = True
            logger.info("the broker runs as a script, which takes longer than as Redis Functions: %s", reply)
        return True


Verbs: TypeAlias = "Scripts | Functions"
"""The verbs, as a server runs them."""
