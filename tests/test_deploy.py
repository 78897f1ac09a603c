"""`examples/deploy`: each file is read, and each command in them is run, on a real Redis."""

from __future__ import annotations

import json
import os
import re
import secrets
import shlex
import signal
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from configparser import RawConfigParser
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

import rq_dlq
from rq_dlq.cli import main
from tests.needs import need_program
from tests.servers import Server, wait_until
from tests.servers.warm import Warm, WarmProcess
from tests.telemetry.test_health import ask

ROOT = Path(__file__).parent.parent
DEPLOY = ROOT / "examples" / "deploy"
UNITS = sorted(DEPLOY.glob("*.service"))
PROGRAMS = {"rq-dlq": [sys.executable, "-m", "rq_dlq"], "python": [sys.executable]}


def documents(name: str) -> list[Any]:
    return [*yaml.safe_load_all((DEPLOY / name).read_text())]


def kubernetes(kind: str, name: str) -> Any:
    found = documents("kubernetes.yaml") + documents("keda.yaml")
    (one,) = [it for it in found if (it["kind"], it["metadata"]["name"]) == (kind, name)]
    return one


def dockerfile() -> dict[str, str]:
    """The instructions; the last of each kind."""
    text = re.sub(r"^#.*\n", "", (DEPLOY / "Dockerfile").read_text(), flags=re.MULTILINE)
    return dict(line.split(maxsplit=1) for line in text.splitlines() if line)


def unit(path: Path) -> RawConfigParser:
    parser = RawConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(path)
    return parser


def image(service: Mapping[str, Any]) -> list[str]:
    """What a container of our image runs."""
    if "entrypoint" in service:
        return list(service["entrypoint"])
    command = service.get("args") or service.get("command") or json.loads(dockerfile()["CMD"])
    words = shlex.split(command) if isinstance(command, str) else command
    return [*json.loads(dockerfile()["ENTRYPOINT"]), *words]


def rewired(words: Sequence[str], port: int = 0) -> list[str]:
    """The same command with this Python, and a port that is free."""
    name, *rest = words
    rest = [re.sub(r"([\d.]+):(8081|9464)\b", rf"\1:{port}", word) for word in rest]
    return PROGRAMS[Path(name).name] + rest


@contextmanager
def process(
    words: Sequence[str], env: Mapping[str, str], warm: Warm | None = None
) -> Iterator[subprocess.Popen[str]]:
    """Run a command beside the program, until a SIGTERM ends it in order.

    Args:
        warm: what it begins from; None: it starts by itself.
    """
    command, pipe = rewired(words), subprocess.PIPE
    options: Any = {"cwd": DEPLOY, "env": os.environ | env, "stdout": pipe, "stderr": pipe, "text": True}
    begins = WarmProcess(warm, command[3:], **options) if warm else subprocess.Popen(command, **options)
    with begins as running:
        try:
            yield running
            running.send_signal(signal.SIGTERM)
            _, log = running.communicate(timeout=60)
            assert running.returncode == 0, log
        finally:
            running.kill()


def port_of(running: subprocess.Popen[str]) -> int:
    """Where it listens, as its log says."""
    assert running.stderr is not None
    for line in running.stderr:
        if found := re.search(r"http://[\d.]+:(\d+)", line):
            return int(found[1])
    raise AssertionError("it ended")


@pytest.fixture
def env(redis_socket: str) -> dict[str, str]:
    return variables(f"unix://{redis_socket}")


def variables(url: str) -> dict[str, str]:
    namespace = f"deploy-{secrets.token_hex(4)}"
    return {"RQ_DLQ_URL": url, "RQ_DLQ_NAMESPACE": namespace, "PYTHONPATH": str(ROOT)}


def test_the_compose_file_runs(tmp_path: Path) -> None:
    """Its Redis, the producer, a worker and the maintenance process, with their arguments."""
    services = documents("compose.yaml")[0]["services"]
    program, *options = shlex.split(services["redis"]["command"])
    assert program == "redis-server"
    with Server(tmp_path, *options) as redis:
        env = variables(redis.url)
        fit = [*PROGRAMS["rq-dlq"], "doctor", "-o", "json"]
        said = subprocess.run(fit, env=os.environ | env, capture_output=True, text=True, check=False).stdout
        states = {row["name"]: row["state"] for row in json.loads(said)}
        assert (states["eviction"], states["persistence"]) == ("ok", "ok")
        producer = rewired(image(services["producer"]))
        done = subprocess.run(
            producer, cwd=DEPLOY, env=os.environ | env, capture_output=True, text=True, check=True
        )
        assert done.stdout == "sent 10 orders\n"
        with (
            process(image(services["worker"]), env) as worker,
            process(image(services["maintain"]), env) as maintain,
            rq_dlq.Broker(redis.url, namespace=env["RQ_DLQ_NAMESPACE"]) as broker,
        ):
            for name, running in (("worker", worker), ("maintain", maintain)):
                port = port_of(running)
                wait_until(lambda port=port: ask(port, "/readyz")[0] == 200)  # type: ignore[misc]
                _, *probe = services[name]["healthcheck"]["test"]
                subprocess.run(rewired(probe, port), check=True)
            wait_until(lambda: broker.queue("orders").stats().totals.get("acked") == 10)


def containers() -> list[Any]:
    deployments = [it for it in documents("kubernetes.yaml") if it["kind"] == "Deployment"]
    return [one for it in deployments for one in it["spec"]["template"]["spec"]["containers"]]


@pytest.mark.parametrize("container", containers(), ids=lambda container: container["name"])
def test_the_probes_of_kubernetes_are_answered(container: Any, env: dict[str, str], warm: Warm) -> None:
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    probes = [probe["httpGet"] for name, probe in container.items() if name.endswith("Probe")]
    words = image(container)
    assert words[-1] == f"0.0.0.0:{min(ports.values())}"
    with process(words, env, warm) as running:
        port = port_of(running)
        for path in [probe["path"] for probe in probes] or ["/metrics"]:
            wait_until(lambda path=path: ask(port, path)[0] == 200)  # type: ignore[misc]
        assert all(probe["port"] in ports for probe in probes)


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_systemd_takes_the_units(path: Path, tmp_path: Path) -> None:
    assert (unit(path)["Service"]["Type"], unit(path)["Service"]["WatchdogSec"]) == ("notify", "60")
    need_program("systemd-analyze")
    ours = tmp_path / path.name.replace("@", "@1")
    ours.write_text(re.sub(r"(?m)^(ExecStart=)\S+", rf"\1{sys.executable}", path.read_text()))
    said = subprocess.run(["systemd-analyze", "verify", ours], capture_output=True, text=True, check=False)
    assert [line for line in said.stderr.splitlines() if ours.name in line] == []


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_what_the_units_start_tells_systemd(
    path: Path, env: dict[str, str], tmp_path: Path, warm: Warm
) -> None:
    env |= {"NOTIFY_SOCKET": f"{tmp_path}/notify", "WATCHDOG_USEC": "60000000"}
    heard: list[str] = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(env["NOTIFY_SOCKET"])
        manager.settimeout(60)
        with process(unit(path)["Service"]["ExecStart"].split(), env, warm):
            while "READY=1" not in heard:
                heard += manager.recv(4096).decode().splitlines()
        while "STOPPING=1" not in heard:
            heard += manager.recv(4096).decode().splitlines()
    assert "STATUS=working" in heard
    assert "WATCHDOG=1" in heard


def test_the_image_is_built_of_what_is_there() -> None:
    found = dockerfile()
    source, *_ = found["COPY"].split()
    assert (DEPLOY / source).exists()
    assert found["USER"].isdecimal()
    assert found["USER"] != "0"
    (extra,) = re.findall(r'\.whl\)\[(\w+)\]"', (DEPLOY / "Dockerfile").read_text())
    assert extra in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert (
        json.loads(found["CMD"])
        == kubernetes("Deployment", "shop-worker")["spec"]["template"]["spec"]["containers"][0]["args"]
    )


def test_who_stops_a_worker_waits_for_its_handlers() -> None:
    (longest,) = re.findall(r'timeout="(\d+)s"', (DEPLOY / "shop.py").read_text())
    service = unit(DEPLOY / "rq-dlq-worker@.service")["Service"]
    graces = [
        kubernetes("Deployment", "shop-worker")["spec"]["template"]["spec"]["terminationGracePeriodSeconds"],
        service["TimeoutStopSec"],
        documents("compose.yaml")[0]["services"]["worker"]["stop_grace_period"].removesuffix("s"),
    ]
    assert min(map(int, graces)) >= int(longest) + 10
    assert service["KillMode"] == "mixed"


def test_kubernetes_finds_what_belongs_together() -> None:
    for name in ("shop-worker", "shop-maintain"):
        spec = kubernetes("Deployment", name)["spec"]
        assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"]
    labels = kubernetes("Deployment", "shop-worker")["spec"]["selector"]
    assert kubernetes("PodDisruptionBudget", "shop-worker")["spec"]["selector"] == labels
    secret = kubernetes("Secret", "shop-redis")
    assert [*secret["stringData"]] == ["RQ_DLQ_URL"]
    names = {source["secretRef"]["name"] for one in containers() for source in one["envFrom"]}
    assert names == {"shop-redis"}


def test_keda_asks_for_figures_that_there_are(env: dict[str, str]) -> None:
    scaled = kubernetes("ScaledObject", "shop-worker")["spec"]
    assert kubernetes("Deployment", scaled["scaleTargetRef"]["name"])
    query = scaled["triggers"][0]["metadata"]["query"]
    asked = re.fullmatch(r'sum\((\w+)\{queue="(\w+)", state=~"([\w|]+)"\}\)', query)
    assert asked is not None
    figure, queue, states = asked.groups()
    with rq_dlq.Broker(env["RQ_DLQ_URL"], namespace=env["RQ_DLQ_NAMESPACE"]) as broker:
        broker.queue(queue).send("x")
    said = CliRunner(env=env).invoke(main, ["metrics"]).stdout
    sample = re.compile(rf'^{figure}{{queue="{queue}",state="({states})"}} ([\d.]+)$', re.MULTILINE)
    found = dict(sample.findall(said))
    assert found == {"ready": "1.0", "leased": "0.0"}
