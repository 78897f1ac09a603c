"""Find, assemble and hash the Lua files.

`lua/README.md` describes the files. A script names the fragments and the keys that it uses, and a fragment
names its own needs (`fragments`). Both become one text (`assembly`), which is the contract with Python
(`script`): keys and arguments are passed by name, so no index is written twice. A wheel contains the
assembled texts (`hatch_build`); a checkout assembles them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from rq_dlq._scripts.assembly import assemble
from rq_dlq._scripts.fragments import library
from rq_dlq._scripts.script import Script, parse
from rq_dlq.values.cached import cached_property

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    from rq_dlq._scripts.fragments import Fragment

__all__ = ["SCRIPTS", "Script", "Scripts", "parse"]

CARRIED = "assembled"  # the folder with the assembled texts of a wheel, next to this file
_ALLOW_OOM = "#!lua flags=allow-oom\n"


@cache
def _files(directory: str = "") -> dict[str, str]:
    """The texts of the Lua files: inside an installed package, next to the package in a checkout."""
    inside = resources.files("rq_dlq") / "lua"
    root = inside if inside.is_dir() else Path(__file__).resolve().parents[2] / "lua"
    files = (root / directory).iterdir()
    texts = {file.name: file.read_text(encoding="utf-8") for file in files if file.name.endswith(".lua")}
    return {directory + name.removesuffix(".lua"): texts[name] for name in sorted(texts)}


@cache
def _carried() -> Traversable | None:
    """The folder with the assembled texts; None: this is a checkout."""
    folder = resources.files("rq_dlq") / "_scripts" / CARRIED
    return folder if folder.is_dir() else None


@dataclass(frozen=True)
class Scripts:
    """All scripts, assembled on first use.

    Args:
        fragments: text that replaces a file, by its name (`{"lib/now": "…"}`); tests use it to move the clock
            of a real server.
        allow_oom: mark scripts that may run when memory is full (I9); for Redis 7 and later.
    """

    fragments: Mapping[str, str] = field(default_factory=dict[str, str])
    allow_oom: bool = False
    _assembled: dict[str, Script] = field(default_factory=dict[str, Script], repr=False)

    def __getitem__(self, name: str) -> Script:
        if name not in self._assembled:
            script = parse(name, self._text(name))
            if self.allow_oom and script.drains:
                script = replace(script, source=_ALLOW_OOM + script.source)
            self._assembled[name] = script
        return self._assembled[name]

    def _text(self, name: str) -> str:
        carried = _carried()
        if carried is None or self.fragments:
            return assemble(name, {**_files(), **self.fragments}[name], self._library)
        return (carried / f"{name}.lua").read_text(encoding="utf-8")

    def for_server(self, version: tuple[int, ...]) -> Scripts:
        """The same scripts, adapted to this version of Redis."""
        return self if self.allow_oom == (version >= (7,)) else self._otherwise

    def names(self) -> list[str]:
        """The verbs, in alphabetical order."""
        return list(_files())

    @cached_property
    def _otherwise(self) -> Scripts:
        return Scripts(self.fragments, allow_oom=not self.allow_oom)

    @cached_property
    def _library(self) -> dict[str, Fragment]:
        replaced = {name: text for name, text in self.fragments.items() if name.startswith("lib/")}
        return library({**_files("lib/"), **replaced})


SCRIPTS = Scripts()
"""The scripts of all brokers, so that each is assembled and hashed once per process."""
