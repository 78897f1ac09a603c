"""The brokers, each on loopback, in a directory and on ports of its own, and what has to be installed."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Self

from tests import servers
from tests.proofs.live_brokers.driver import Side

HOME = Path(__file__).parent
POLICIES = HOME / "activemq.xml"
ACTIVEMQ = Path(os.environ.get("ACTIVEMQ_HOME", "/usr/share/activemq"))
JARS = [str(ACTIVEMQ / "lib" / "*"), str(ACTIVEMQ / "lib" / "optional" / "*")]
STARTS = 60.0
"""Seconds until a broker answers, on a machine that is busy."""
TIED = '"$@" >>"$0" 2>&1 & cat; kill -9 $!; wait'
"""Runs a command, and kills it as soon as standard input ends: also when whoever started it was killed."""


def missing() -> dict[str, str]:
    """What is not here, and how it is installed."""
    wanted = {
        "redis-server": (servers.binary(), "apt-get install redis-server"),
        "ActiveMQ Classic": (
            (ACTIVEMQ / "bin" / "activemq.jar").exists(),
            "apt-get install activemq, or unpack a 5.x of your own and set ACTIVEMQ_HOME",
        ),
        "a JDK with javac": (shutil.which("javac"), "apt-get install default-jdk-headless"),
        "nats-server": (shutil.which("nats-server"), "apt-get install nats-server"),
        "nats-py": (find_spec("nats"), "pip install -e '.[bench]'"),
    }
    return {what: how for what, (found, how) in wanted.items() if not found}


class Program:
    """A server that lives no longer than this process.

    Args:
        command: what is started.
        directory: its own; the log is in it.
        answers: whether it takes requests yet.
    """

    def __init__(self, command: Sequence[str], directory: Path, answers: Callable[[], bool]) -> None:
        self._command, self._answers = command, answers
        directory.mkdir(parents=True, exist_ok=True)
        self._directory, self._log = directory, directory / "log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it answers.

        Raises:
            TimeoutError: it does not; with the end of its log.
        """
        command = ["sh", "-c", TIED, str(self._log), *self._command]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, cwd=self._directory, start_new_session=True
        )
        deadline = time.monotonic() + STARTS
        while not self._answers():
            if time.monotonic() > deadline:
                self.kill()
                message = (
                    f"{self._command[0]} does not answer: {self._log.read_text(errors='replace')[-2000:]}"
                )
                raise TimeoutError(message)
            time.sleep(0.05)

    def kill(self) -> None:
        """SIGKILL it."""
        if self._process is not None:
            self._process.communicate()
            self._process = None

    def restart(self) -> None:
        """Kill it, and start it on what is on its disk."""
        self.kill()
        self.start()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


def listens(port: int) -> Callable[[], bool]:
    """Whether somebody takes connections there."""

    def answers() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    return answers


@contextmanager
def classic(directory: Path) -> Iterator[Side]:
    """ActiveMQ Classic with `activemq.xml`, driven by JMS."""
    port, jmx = servers.free_port(), servers.free_port()  # beside them the JVM opens one for local processes
    settings = {
        "activemq.home": ACTIVEMQ,
        "activemq.base": directory,
        "live.directory": directory / "data",
        "live.port": port,
        "com.sun.management.jmxremote.port": jmx,
        "com.sun.management.jmxremote.rmi.port": jmx,
        "com.sun.management.jmxremote.host": "127.0.0.1",
        "com.sun.management.jmxremote.authenticate": "false",
        "com.sun.management.jmxremote.ssl": "false",
        "java.rmi.server.hostname": "127.0.0.1",
    }
    options = [f"-D{name}={value}" for name, value in settings.items()]
    jar = str(ACTIVEMQ / "bin" / "activemq.jar")
    command = ["java", "-Xmx512m", *options, "-jar", jar, "start", f"xbean:{POLICIES.as_uri()}"]
    address = f"service:jmx:rmi:///jndi/rmi://127.0.0.1:{jmx}/jmxrmi"
    drive = ["java", "-XX:TieredStopAtLevel=1", "-cp", os.pathsep.join([str(directory), *JARS])]
    drive += ["ClassicDriver", f"tcp://127.0.0.1:{port}", address]
    with Program(command, directory, listens(port)) as program:
        (directory / "log4j.properties").write_text("log4j.rootLogger=OFF\n")
        compiled = ["javac", "-d", str(directory), "-cp", os.pathsep.join(JARS)]
        subprocess.run([*compiled, str(HOME / "ClassicDriver.java")], check=True)
        with driven(drive, program) as side:
            yield side


@contextmanager
def jetstream(directory: Path) -> Iterator[Side]:
    """A NATS server with JetStream."""
    port = servers.free_port()
    command = ["nats-server", "-js", "-a", "127.0.0.1", "-p", str(port), "-sd", str(directory)]
    drive = [sys.executable, "-m", "tests.proofs.live_brokers.nats_driver", f"nats://127.0.0.1:{port}"]
    with Program(command, directory, listens(port)) as program, driven(drive, program) as side:
        yield side


@contextmanager
def here(directory: Path) -> Iterator[Side]:
    """A Redis that writes all to its disk, the policies imported by our command, and maintenance."""
    path = directory / "redis.sock"
    command = [servers.needed(), "--port", "0", "--unixsocket", str(path), "--dir", str(directory)]
    command += ["--save", "", "--appendonly", "yes", "--appendfsync", "always"]
    rq_dlq = [sys.executable, "-m", "rq_dlq", "--url", f"unix://{path}"]
    maintain = Program(
        [*rq_dlq, "maintain", "--period", "100ms"], directory / "maintain", lambda: servers.answers(str(path))
    )
    drive = [sys.executable, "-m", "tests.proofs.live_brokers.here", f"unix://{path}"]
    with Program(command, directory, lambda: servers.answers(str(path))) as program:
        subprocess.run([*rq_dlq, "policy", "import", str(POLICIES)], check=True, capture_output=True)
        with maintain, driven(drive, program) as side:
            yield side


@contextmanager
def driven(command: Sequence[str], program: Program) -> Iterator[Side]:
    """The side of a program that runs."""
    side = Side(command, program.restart)
    try:
        yield side
    finally:
        side.close()
