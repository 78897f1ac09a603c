"""An environment for each peer, since they want different versions of redis-py; never the project's own."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
HOME = ROOT / "build" / "peers"
US = "rq_dlq"
REQUIREMENTS: Mapping[str, tuple[str, ...]] = {
    US: (str(ROOT),),
    "rq": ("rq", "hiredis"),
    "celery": ("celery[redis]", "hiredis"),
    "dramatiq": ("dramatiq[redis]", "hiredis"),
    "arq": ("arq", "uvloop"),
    "saq": ("saq[hiredis,redis]", "typing-extensions"),
    "taskiq": ("taskiq", "taskiq-redis", "hiredis", "uvloop"),
    "huey": ("huey", "redis", "hiredis"),
    "streaq": ("streaq", "uvloop"),
    "repid": ("repid[redis]", "typing-extensions", "hiredis", "uvloop"),
    "streams": ("hiredis", "redis"),
    "beanstalkd": ("greenstalk",),
    "nats": ("nats-py", "uvloop"),
    "bullmq": (),
}
PROGRAMS = {
    "beanstalkd": ("beanstalkd",),
    "nats": ("nats-server",),
    "bullmq": ("node", "npm"),
}
PACKAGES = "beanstalkd nats-server nodejs npm"


class NotHereError(Exception):
    """A peer that cannot be installed on this machine, and why."""


@dataclass(frozen=True)
class Environment:
    """Where a peer is installed.

    Attributes:
        name: of the peer.
        folder: with its bin/, or with its node_modules/.
    """

    name: str
    folder: Path

    @property
    def adapter(self) -> list[str]:
        """The command of its adapter."""
        if self.name == "bullmq":
            return ["node", str(HERE / "adapters" / "bullmq.mjs")]
        return [str(self.folder / "bin" / "python"), "-m", f"tests.benchmarks.peers.adapters.{self.name}"]

    def command(self, text: str) -> list[str]:
        """A command that an adapter names."""
        places = {"bin": self.folder / "bin", "python": self.folder / "bin" / "python", "node": "node"}
        return [word.format(**places, adapter=self.adapter[-1]) for word in text.split()]

    def variables(self, **own: str) -> dict[str, str]:
        """The variables of its processes; they may write bytecode, as programs of users do."""
        inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        return inherited | {"PYTHONPATH": str(ROOT), "BENCH_MODULES": str(self.folder)} | own


def installed(name: str) -> Environment:
    """The environment of a peer, made where it is not there yet.

    Raises:
        NotHereError: a program is missing, or pip or npm failed.
    """
    missing = [program for program in PROGRAMS.get(name, ()) if shutil.which(program) is None]
    if missing:
        raise NotHereError(f"there is no {' and no '.join(missing)}: apt-get install {PACKAGES}")
    folder, stamp = HOME / name, HOME / name / "installed"
    wanted = hashlib.sha256()
    for part in (
        *REQUIREMENTS[name],
        (HERE / "constraints.txt").read_text(),
        (HERE / "package.json").read_text(),
    ):
        wanted.update(part.encode())
    if name == US or not stamp.exists() or stamp.read_text() != wanted.hexdigest():
        _install(name, folder)
        stamp.write_text(wanted.hexdigest())
    return Environment(name, folder)


def _install(name: str, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if name == "bullmq":
        shutil.copy(HERE / "package.json", folder)
        _run(name, "npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder))
        return
    if not (folder / "bin" / "python").exists():
        _run(name, sys.executable, "-m", "venv", "--without-pip", str(folder))
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install", "--quiet"]
    _run(name, *pip, "--constraint", str(HERE / "constraints.txt"), *REQUIREMENTS[name])


def _run(name: str, *command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotHereError(f"{name} cannot be installed: {done.stderr.strip()[-300:]}")
