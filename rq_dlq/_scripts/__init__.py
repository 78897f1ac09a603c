"""Find, assemble and hash the Lua files.

`lua/README.md` describes the files. A script names the fragments and the keys that it uses, and a fragment
names its own needs (`fragments`). Both become one text (`assembly`), which is the contract with Python
(`script`): keys and arguments are passed by name, so no index is written twice. A wheel contains the
assembled texts (`hatch_build`); a checkout assembles them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from rq_dlq._scripts.assembly import assemble
from rq_dlq._scripts.fragments import library
from rq_dlq._scripts.joining import join
from rq_dlq._scripts.script import Script, parse
from rq_dlq.values.cached import cached_property

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    from rq_dlq._scripts.fragments import Fragment
    from rq_dlq._scripts.joining import Library

__all__ = ["SCRIPTS", "Script", "Scripts", "parse"]

CARRIED = "assembled"  # the folder with the assembled texts of a wheel, next to this file
_ALLOW_OOM = "#!lua flags=allow-oom\n"
_BROKER = "broker/"
Form: TypeAlias = Literal["scripts", "functions", "text"]
"""How Redis gets the verbs: each as a script of its own; all as a library of Redis Functions; or the text of
that library as a script, where a server has no functions."""
# While both forms are alive.
_FORM: Form = os.environ.get("RQ_DLQ_FORM", "scripts")  # type: ignore[assignment]


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
        form: how Redis gets them.
    """

    fragments: Mapping[str, str] = field(default_factory=dict[str, str])
    allow_oom: bool = False
    form: Form = _FORM
    _assembled: dict[str, Script] = field(default_factory=dict[str, Script], repr=False)

    def __getitem__(self, name: str) -> Script:
        if name not in self._assembled and self.form != "scripts":
            self._assembled[name] = self._verb(name)
        elif name not in self._assembled:
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

    def _verb(self, name: str) -> Script:
        """A verb of the library."""
        library = self._joined
        verb = library.verbs[name]
        function, first = f"{library.name}_{name}", f"#!lua name={library.name}\n"
        tail: tuple[str, ...] = ()
        if self.form == "text":
            flags = "no-writes" if verb.reads else "allow-oom" if verb.drains else ""
            function, tail = "", (name,)
            first = f"#!lua{' flags=' if flags else ''}{flags}\n" if self.allow_oom else ""
        contract = (verb.keys, verb.args, verb.items, verb.families, verb.drains)
        return Script(name, first + library.text, *contract, function, tail, verb.commands)

    @cached_property
    def _joined(self) -> Library:
        replaced = {name: text for name, text in self.fragments.items() if name.startswith(_BROKER)}
        texts = {**_files(_BROKER), **replaced}
        return join({name.removeprefix(_BROKER): text for name, text in texts.items()})

    @cached_property
    def _otherwise(self) -> Scripts:
        return replace(self, allow_oom=not self.allow_oom, _assembled={})

    def as_form(self, form: Form) -> Scripts:
        """The same verbs in another form."""
        return replace(self, form=form, _assembled={})

    @cached_property
    def _library(self) -> dict[str, Fragment]:
        replaced = {name: text for name, text in self.fragments.items() if name.startswith("lib/")}
        return library({**_files("lib/"), **replaced})


SCRIPTS = Scripts()
"""The scripts of all brokers, so that each is assembled and hashed once per process."""
