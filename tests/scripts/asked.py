"""A function of a Lua module by itself: a verb `ask`, added to the joined text, calls it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from textwrap import indent
from typing import Any

from redis.exceptions import NoScriptError

from rq_dlq._scripts import Joined
from tests.joined_lua import texts

LAST = "settings"


@dataclass
class Asked:
    """A verb that runs these lines of Lua; it has `q` and `ARGV`, and its keys are those of what it calls.

    Args:
        lines: they return what is asked for.
        module: in which they stand, so that they see its local functions.
        modules: text in place of other modules.
    """

    lines: str
    module: str = LAST
    modules: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        verb = f"\nfunction Verbs.ask(q, ARGV)\n{indent(self.lines, '  ')}\nend\n"
        modules = {self.module: texts()[self.module] + verb, **(self.modules or {})}
        self._script = Joined(modules, form="bare")["ask"]

    def __call__(self, raw: Any, *arguments: object) -> Any:
        """Ask a server, whose keys are called as in the text."""
        script = self._script
        rest = (len(script.keys), *script.keys, *arguments, *script.tail)
        try:
            return raw.evalsha(script.sha, *rest)
        except NoScriptError:
            return raw.eval(script.source, *rest)
