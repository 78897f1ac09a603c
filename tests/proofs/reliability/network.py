"""Hosts of one's own on this machine: network namespaces on a bridge, which can be cut off."""

from __future__ import annotations

import os
import subprocess
from contextlib import ExitStack
from typing import Self

from tests import needs


def missing() -> str:
    """Why there are none here; empty where there are."""
    if reason := needs.missing("ip"):
        return reason
    if os.geteuid() != 0:
        return "no root here: run as root, who may make network namespaces"
    tried = subprocess.run(
        ["ip", "netns", "add", _name("probe")], capture_output=True, text=True, check=False
    )
    if tried.returncode:
        return f"no network namespaces here: {tried.stderr.strip()}"
    _ip("netns", "delete", _name("probe"))
    return ""


class Hosts:
    """Hosts 1 to n with addresses 10.77.0.1 to n; gone at the end.

    A client need not be on one of them: a server on a host can be reached by its unix socket, too.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._undo = ExitStack()

    @staticmethod
    def address(host: int) -> str:
        """Where it is."""
        return f"10.77.0.{host}"

    @staticmethod
    def inside(host: int) -> tuple[str, ...]:
        """What goes before a command that is to run on a host."""
        return ("ip", "netns", "exec", _name(host))

    @staticmethod
    def cut_off(host: int) -> None:
        """From now on no packet goes to it or comes from it."""
        _ip("link", "set", _link(host), "down")

    @staticmethod
    def join(host: int) -> None:
        """It is on the network again."""
        _ip("link", "set", _link(host), "up")

    def __enter__(self) -> Self:
        with self._undo:  # undone at once if something fails half-way
            _ip("link", "add", _link("b"), "type", "bridge")
            self._undo.callback(_ip, "link", "delete", _link("b"))
            _ip("link", "set", _link("b"), "up")
            for host in range(1, self._count + 1):
                _ip("netns", "add", _name(host))
                self._undo.callback(_ip, "netns", "delete", _name(host))
                _ip("link", "add", _link(host), "type", "veth", "peer", "name", "eth0", "netns", _name(host))
                _ip("link", "set", _link(host), "master", _link("b"), "up")
                _ip("-n", _name(host), "address", "add", f"{self.address(host)}/24", "dev", "eth0")
                _ip("-n", _name(host), "link", "set", "eth0", "up")
                _ip("-n", _name(host), "link", "set", "lo", "up")
            self._undo = self._undo.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._undo.close()


def _name(host: int | str) -> str:
    return f"rq-dlq-{os.getpid()}-{host}"


def _link(host: int | str) -> str:
    return f"rqd{os.getpid() % 100_000}-{host}"  # 15 characters at most


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)
