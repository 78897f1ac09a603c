"""Processes that begin warm: forked from one that has imported what they need.

What a process imports is most of what it costs in a test of signals, of a terminal or of a log, and as one of
the hundred that Spark starts. That programs start by themselves is what the tests of the root, of Ctrl-C, of
the README and of examples see, and those of workers with `--processes`, whose children are no forks.

An interpreter that imports the package anew takes half a second of CPU and more. A warm process has its own
environment, directory and streams; `tests/test_warm.py` compares both.
"""

from __future__ import annotations

import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Self

from tests.servers.forms import NAMES, VARIABLE, use
from tests.servers.started import Started

ROOT = Path(__file__).parents[2]
COMMAND_LINE = [
    f"rq_dlq.cli.{name}"
    for name in ("worker", "maintain", "metrics", "redrives", "exports", "top", "queues")
]  # fmt: skip
"""With the worker comes nearly all of the package."""
STDIO = 3  # file descriptors
REQUEST = 1 << 20  # bytes at most
WAITING = 128  # requests at most that it has not yet taken up
NUMBER = 16  # bytes of a number of a process


class Warm:
    """The process that forks, from its first use on.

    Args:
        modules: what it imports; those that are not there are left out.

    Attributes:
        path: of the socket that takes requests.
    """

    def __init__(self, modules: Sequence[str] = COMMAND_LINE) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="rq-dlq-warm-")
        self.path = f"{self._folder.name}/socket"
        lives, self._lives = os.pipe()
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asked:
            asked.bind(self.path)
            asked.listen(WAITING)
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(asked.fileno()), str(lives), *modules],
                cwd=ROOT, pass_fds=[asked.fileno(), lives],
            )  # fmt: skip
        os.close(lives)

    def ask(self, request: dict[str, object], descriptors: list[int]) -> None:
        """Have it start a process."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asking:
            asking.connect(self.path)
            socket.send_fds(asking, [json.dumps(request).encode()], descriptors)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._lives)
        self._process.wait()
        self._folder.cleanup()


class WarmProcess(Started):
    """As a `Popen` of `python -m …`, which is no child of the tests.

    Args:
        words: what comes after the name of the module.
        module: what runs; by default the command line.
        before: Python that runs first.
        session: in a session of its own, whose terminal is its stdin.
    """

    def __init__(
        self,
        warm: Warm,
        words: list[str],
        *,
        module: str = "rq_dlq",
        before: str = "",
        session: bool = False,
        **options: Any,
    ) -> None:
        self._warm = warm
        self._request = {"module": module, "before": before, "session": session}
        self._told, self._telling = os.pipe()  # its number, and how it ended
        super().__init__(words, **options)

    def _execute_child(self, *given: Any) -> None:
        words, _, _, _, _, cwd, env, _, _, _, p2cread, _, _, c2pwrite, _, errwrite, *_ = given
        request = {
            **self._request,
            "words": list(words),
            "cwd": str(cwd or Path.cwd()),
            "env": {**(os.environ if env is None else env)},
        }
        stdio = [fd if fd != -1 else own for own, fd in enumerate((p2cread, c2pwrite, errwrite))]
        self._warm.ask(request, [*stdio, self._telling])
        os.close(self._telling)
        self._close_pipe_fds(*given[10:16])  # type: ignore[attr-defined]
        self.pid = int(os.read(self._told, NUMBER))
        self._child_created = True

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        if wait_flags == os.WNOHANG and not select.select([self._told], [], [], 0)[0]:
            return 0, 0
        status = int(os.read(self._told, NUMBER) or b"9")  # none: who waited for it was killed, too
        os.close(self._told)
        return self.pid, status

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        with self._waitpid_lock:  # type: ignore[attr-defined]
            if self.returncode is None:
                pid, status = self._try_wait(os.WNOHANG)
                if pid:
                    self._handle_exitstatus(status)  # type: ignore[attr-defined]
        return self.returncode


def serve(asked: socket.socket, lives: int) -> dict[str, Any]:
    """Fork for each request; returns in the new processes only, with the request."""
    while True:
        if lives in select.select([asked.fileno(), lives], [], [])[0]:
            os._exit(0)  # the tests are over
        with asked.accept()[0] as asking:
            data, descriptors, _, _ = socket.recv_fds(asking, REQUEST, STDIO + 1)
        if os.fork() == 0:
            asked.close()
            os.close(lives)
            return started(json.loads(data), descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        os.waitpid(-1, os.WNOHANG)  # one that has waited for its child


def started(request: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
    """A process between waits for the new one and tells how it ended."""
    *stdio, telling = descriptors
    child = os.fork()
    if child:
        for descriptor in stdio:
            os.close(descriptor)
        _, status = os.waitpid(child, 0)
        os.write(telling, str(status).encode())
        os._exit(0)
    os.write(telling, str(os.getpid()).encode().ljust(NUMBER))
    os.close(telling)
    for number, descriptor in enumerate(stdio):
        os.dup2(descriptor, number)
        os.close(descriptor)
    return request


def main() -> None:
    """Import, and wait for requests; what goes on from here is a new process."""
    gc.disable()
    for name in sys.argv[3:]:
        with suppress(ImportError):
            import_module(name)
    gc.freeze()  # a fork that looked for garbage in all this would copy it first
    gc.enable()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the tests, and they end this
    with socket.socket(fileno=int(sys.argv[1])) as asked:
        request = serve(asked, int(sys.argv[2]))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if request["session"]:
        import fcntl  # noqa: PLC0415
        import termios  # noqa: PLC0415

        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # the terminal of this session: keys send signals
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    use(os.environ.get(VARIABLE, NAMES[0]))
    sys.path[0], sys.argv = request["cwd"], [request["module"], *request["words"]]
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        own = getattr(sys, name)  # of the process that forked
        buffering = 1 if name == "stderr" else -1
        setattr(sys, name, os.fdopen(own.fileno(), mode, buffering, own.encoding, own.errors))
    exec(request["before"], {})  # noqa: S102
    runpy.run_module(request["module"], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
