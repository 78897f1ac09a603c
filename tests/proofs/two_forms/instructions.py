"""How many instructions redis-server takes for a call, in each form, as callgrind counts them.

`python -m tests.proofs.two_forms.instructions [--times 300] [CALL …]`: send, claim, ack, nack, release;
perhaps followed by a number of messages, as in `ack:100`. A count of 300 calls differs by
1 or 2 % from run to run.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import redis

from rq_dlq._scripts import Form, Scripts
from rq_dlq.core.settling import calls as settling_calls
from rq_dlq.core.steps.call import Call
from tests import servers
from tests.model.driver import CAUSE, Driver

FORMS: tuple[Form, ...] = ("scripts", "functions")
WARM = 3  # calls that are not counted
TOTAL = re.compile(r"^totals: (\d+)", re.MULTILINE)
Make = Callable[[Driver, int, int], Call[Any]]


def _send(driver: Driver, n: int, size: int) -> Call[Any]:
    return driver.send_call(*[(f"m{n}-{k}", 4) for k in range(size)])


def _claim(driver: Driver, n: int, size: int) -> Call[Any]:
    driver.run(_send(driver, n, size))
    return driver.claim_call(f"token-{n:020}", size)


def _held(driver: Driver, n: int, size: int) -> list[tuple[str, str]]:
    driver.run(_claim(driver, n, size))
    return [(f"m{n}-{k}", f"token-{n:020}") for k in range(size)]


def _nack(driver: Driver, n: int, size: int) -> Call[Any]:
    return settling_calls.nack(
        driver.keys, _held(driver, n, size), delay=None, charge=True, cause=CAUSE, consumer='"c"', seed=0.5,
        default_policy=driver.wire,
    )  # fmt: skip


CALLS: dict[str, Make] = {
    "send": _send,
    "claim": _claim,
    "ack": lambda driver, n, size: settling_calls.ack(driver.keys, _held(driver, n, size)),
    "nack": _nack,
    "release": lambda driver, n, size: settling_calls.release(driver.keys, _held(driver, n, size)),
}


class Counted:
    """A server under callgrind."""

    def __init__(self, folder: Path, raw: Any, process: subprocess.Popen[bytes]) -> None:
        self._folder, self.raw, self._process = folder, raw, process

    def count(self, commands: list[tuple[Any, ...]]) -> float:
        """The instructions of each of these commands, on average."""
        self._tell("-z")
        for command in commands:
            self.raw.execute_command(*command)
        before = {*self._folder.glob("out.*")}
        self._tell("-d")
        found: list[str] = []
        while not found:  # it writes the file meanwhile
            time.sleep(0.1)
            new = {*self._folder.glob("out.*")} - before
            found = [said for file in new for said in TOTAL.findall(file.read_text())]
        return int(found[0]) / len(commands)

    def _tell(self, what: str) -> None:
        subprocess.run(["callgrind_control", what, str(self._process.pid)], check=True, capture_output=True)


@contextmanager
def counted() -> Generator[Counted]:
    """A server of this machine under callgrind."""
    server = servers.binary()
    assert server, servers.NO_SERVER
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        socket = folder / "redis.sock"
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out.%p", server]
        options = [
            "--port",
            "0",
            "--unixsocket",
            str(socket),
            "--save",
            "",
            "--hz",
            "1",
            "--dynamic-hz",
            "no",
        ]
        with subprocess.Popen([*command, *options], cwd=name, stdout=-3, stderr=-3) as process:
            try:
                servers.wait_until(socket.exists)
                yield Counted(folder, redis.Redis(unix_socket_path=str(socket)), process)
            finally:
                process.kill()


def measured(server: Counted, form: Form, what: str, times: int) -> float:
    """The instructions of one call of this kind."""
    verb, _, size = what.partition(":")
    server.raw.flushall()
    scripts = Scripts(form=form).for_server((7,))
    driver = Driver(server.raw, scripts=scripts)
    driver.run(driver.configure_call())
    calls = [CALLS[verb](driver, n, int(size or 1)) for n in range(times + WARM)]
    driver.run_all(*calls[:WARM])
    return server.count([call.command(scripts) for call in calls[WARM:]])


def main() -> None:
    """Print the counts."""
    parser = argparse.ArgumentParser(prog="python -m tests.proofs.two_forms.instructions")
    parser.add_argument("--times", type=int, default=300)
    parser.add_argument("calls", nargs="*", default=[*CALLS])
    asked = parser.parse_args()
    for what in asked.calls:
        counts: list[float] = []
        for form in FORMS:
            with counted() as server:
                counts.append(measured(server, form, what, asked.times))
        said = ", ".join(f"{form} {count:,.0f}" for form, count in zip(FORMS, counts, strict=True))
        sys.stdout.write(f"{what}: {said}, {counts[1] / counts[0]:.3f}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
