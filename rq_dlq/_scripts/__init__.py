"""Find, join and hash the Lua modules.

`lua/README.md` describes the modules, and how Redis gets them. They become one text (`joining`), from which
the contract of each verb with Python is read (`script`): keys and arguments are passed by name, so no index
is written twice. A wheel carries the text and the contracts (`carried`); a checkout joins the modules, which
it has beside the package.

- *Why a library of Redis Functions*: a script defines its functions at each call: with 0, 20, 60 and 120 of
  them a script with one GET takes 3.9, 7.6, 17 and 31 µs. A library defines them once, when it is loaded, so
  the Lua is plain functions, in modules by subject. A server without functions runs the same text as a
  script, slower.
- *The name has the hash of the text.* Two versions share a server: a call reaches the text that its client
  was tested with, or none. Under a fixed name each rollout would replace the functions under the programs of
  the other version.
- *A verb's contract is read from the text*: its keys and commands are those of the functions that it reaches.
  Rights, their trial and the declared keys follow from it.
- *Nothing that changes outlives a call*, since a library lives as long as the server. luacheck refuses a
  function that assigns a name of a module, and a test compares all that the functions share.

Redis takes 8 to 13 ms to load the library, once for each version and server.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from rq_dlq._scripts import carried
from rq_dlq._scripts.joining import join
from rq_dlq._scripts.verb import Verb
from rq_dlq.values.cached import cached_property

if TYPE_CHECKING:
    from rq_dlq._scripts.verb import Library

__all__ = ["JOINED", "Joined", "Verb"]

Form: TypeAlias = Literal["functions", "flags_ro", "flags", "bare"]
"""How Redis gets the verbs: as a library of Redis Functions; or its text as a script, with flags in the first
line, where those that read run by EVALSHA_RO, or all by EVALSHA; or without such a line, for Redis 6.2."""


@cache
def _files() -> dict[str, str]:
    """The texts of the modules: inside an installed package, next to the package in a checkout."""
    inside = resources.files("rq_dlq") / "lua"
    root = inside if inside.is_dir() else Path(__file__).resolve().parents[2] / "lua"
    texts = {
        file.name: file.read_text(encoding="utf-8") for file in root.iterdir() if file.name.endswith(".lua")
    }
    return {name.removesuffix(".lua"): texts[name] for name in sorted(texts)}


@cache
def _library() -> Library:
    """The text of the modules as they are."""
    return carried.read() or join(_files())


@dataclass(frozen=True)
class Joined:
    """All verbs, joined on first use.

    Args:
        modules: text that replaces a module, by its name (`{"clock": "…"}`); tests use it to move the clock
            of a real server.
        form: how Redis gets them.

    Attributes:
        known: those that were asked for.
    """

    modules: Mapping[str, str] = field(default_factory=dict[str, str])
    form: Form = "functions"
    known: dict[str, Verb] = field(default_factory=dict[str, Verb], repr=False)
    _forms: dict[Form, Joined] = field(default_factory=dict["Form", "Joined"], repr=False)

    def __getitem__(self, name: str) -> Verb:
        if name not in self.known:
            self.known[name] = self._verb(name)
        return self.known[name]

    def as_form(self, form: Form) -> Joined:
        """The same verbs in another form."""
        if form == self.form:
            return self
        if form not in self._forms:
            self._forms[form] = replace(self, form=form, known={})
            self._forms[form].__dict__["_joined"] = self._joined  # joined once
        return self._forms[form]

    def for_server(self, version: tuple[int, ...]) -> Joined:
        """The same verbs for a server of this version of Redis; it may still refuse functions (`loading`)."""
        return self.as_form("functions" if version >= (7,) else "bare")

    def names(self) -> list[str]:
        """The verbs, in alphabetical order."""
        return sorted(self.library.verbs)

    @property
    def library(self) -> Library:
        """The text and the contracts."""
        return self._joined

    @cached_property
    def _joined(self) -> Library:
        return join({**_files(), **self.modules}) if self.modules else _library()

    def _verb(self, name: str) -> Verb:
        library, form = self.library, self.form
        contract = library.verbs[name]
        alone = contract.reads and form in {"functions", "flags_ro"}
        if form == "functions":
            source, word = self._sources[""], b"FCALL_RO" if alone else b"FCALL"
            return Verb(**vars(contract), source=source, word=word, function=f"{library.name}_{name}")
        source, word = self._sources[contract.flag], b"EVALSHA_RO" if alone else b"EVALSHA"
        return Verb(**vars(contract), source=source, word=word, tail=(name,))

    @cached_property
    def _sources(self) -> dict[str, str]:
        """The texts by the flag of their verbs, so that these share them.

        A server that knows no flags gets an empty line in their place: errors have the same numbers of lines.
        """
        text, flags = self.library.text, ("", "no-writes", "allow-oom")
        if self.form == "functions":
            return {"": self.library.source}
        if self.form == "bare":
            return dict.fromkeys(flags, f"\n{text}")
        return {flag: f"#!lua{f' flags={flag}' if flag else ''}\n{text}" for flag in flags}


JOINED = Joined()
"""The verbs of all brokers, so that they are joined and hashed once per process."""
