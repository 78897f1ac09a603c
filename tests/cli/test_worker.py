"""`rq-dlq worker`, as processes."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import psutil
import pytest
from click.testing import CliRunner

import rq_dlq
from rq_dlq.cli import main
from rq_dlq.cli._processes import Slot, Supervisor
from tests.cli.conftest import Shell
from tests.servers import Server, wait_until
from tests.servers.started import Started
from tests.tables import each_row
from tests.telemetry.test_health import ask
from tests.worker.test_processes import logged

APP = """
import os, pathlib, time
from rq_dlq import Broker
from rq_dlq.asyncio import Broker as AwaitingBroker

broker = Broker()
orders = broker.queue("orders")
mails = broker.queue("mails")
here = pathlib.Path(__file__).parent

@orders.handler(concurrency=2)
def order(body):
    if body == "leave":
        os._exit(0)
    if body == "slow":
        (here / "slow").touch()
        while not (here / "go").exists():
            time.sleep(0.01)
    with (here / "done").open("a") as done:
        done.write(f"{body}\\n")

@mails.handler()
async def mail(body):
    (here / "mail").write_text(body)

awaiting = AwaitingBroker()

@awaiting.queue("awaited").handler
async def awaited(body):
    (here / "awaited").write_text(body)

@awaiting.queue("blocked").handler
def blocked(body):
    (here / "blocked").write_text(body)

nothing = 5
empty = Broker()
elsewhere = Broker("redis://other:6379/0")
apart = Broker(namespace="apart")
"""


UNGUARDED = """from rq_dlq import Broker
broker = Broker()
broker.queue("orders").handler()(print)
broker.run()
"""

ENDLESS = """import time
while True:
    try:
        time.sleep(60)
    except Exception:
        pass
"""


@pytest.fixture(autouse=True)
def app(shell: Shell) -> None:
    (shell.directory / "app.py").write_text(APP)


def done(shell: Shell) -> list[str]:
    file = shell.directory / "done"
    return sorted(file.read_text().split()) if file.exists() else []


def test_burst_works_a_file_off_and_ends(shell: Shell, broker: rq_dlq.Broker, tmp_path: Path) -> None:
    file = tmp_path / "orders.txt"
    file.write_text("".join(f"{number}\n" for number in range(50)))
    shell("send", "orders", str(file))
    with shell.process("worker", "app:broker", "--burst") as worker:
        assert worker.wait(60) == 0
        assert worker.stdout is not None
        assert worker.stdout.read() == ""
    assert done(shell) == sorted(map(str, range(50)))
    assert broker.queue("orders").stats().totals["acked"] == 50


def test_the_garbage_collector_passes_over_what_the_app_imported(shell: Shell, broker: rq_dlq.Broker) -> None:
    program = "import gc\n" + APP.replace("write_text(body)", "write_text(f'{gc.get_freeze_count()}')", 1)
    (shell.directory / "app.py").write_text(program)
    broker.queue("mails").send("x")
    with shell.process("worker", "app:broker", "--burst") as worker:
        assert worker.wait(60) == 0
    assert int((shell.directory / "mail").read_text()) > 10_000


SHARDS = """
from pathlib import Path
from rq_dlq import Broker

broker = Broker()
for name in ("orders:0", "orders:1", "orders:10"):
    queue = broker.queue(name)

    @queue.handler
    def order(body, delivery):
        with (Path(__file__).parent / "done").open("a") as done:
            done.write(f"{delivery.queue}\\n")
"""


@pytest.mark.parametrize("more", [(), ("--processes", "2")])
def test_q_names_a_shard(more: tuple[str, ...], shell: Shell, broker: rq_dlq.Broker) -> None:
    (shell.directory / "app.py").write_text(SHARDS)
    for name in ("orders:0", "orders:1", "orders:10"):
        broker.queue(name).send("x")
    chosen = ("-q", "orders:0", "-q", "orders:10:4")
    with shell.process("worker", "app", "--burst", *chosen, *more) as worker:
        assert worker.wait(60) == 0
    assert done(shell) == ["orders:0", "orders:10"]
    assert broker.queue("orders:1").stats().ready == 1


def test_the_default_attribute_is_broker_and_q_chooses_queues(shell: Shell, broker: rq_dlq.Broker) -> None:
    broker.queue("orders").send("a")
    broker.queue("mails").send("b")
    with shell.process("worker", "app", "--burst", "-q", "mails:3") as worker:
        assert worker.wait(60) == 0
    assert (shell.directory / "mail").read_text() == "b"
    assert broker.queue("orders").stats().ready == 1


@pytest.mark.parametrize("processes", ["1", "2"])
def test_burst_with_its_log_as_json(shell: Shell, broker: rq_dlq.Broker, processes: str) -> None:
    broker.queue("orders").send_many(map(str, range(20)))
    broker.queue("mails").send(7, id="m")  # which is no text to write
    options = ["--burst", "--log-format", "json", "--processes", processes]
    with shell.process("worker", "app:broker", *options) as worker:
        assert worker.wait(60) == 0
        assert worker.stderr is not None
        lines = [json.loads(line) for line in worker.stderr]
    tries = [line for line in lines if "failed:" in line["message"]]
    assert [line["delivery_count"] for line in tries] == [*range(1, len(tries) + 1)]  # a line each
    failed = tries[0]
    assert (failed["logger"], failed["level"]) == ("rq_dlq.worker", "WARNING")
    assert (failed["queue"], failed["message_id"], failed["delivery_count"]) == ("mails", "m", 1)
    assert sum(line["message"] == "stopped" for line in lines) == int(processes)
    assert len(done(shell)) == 20


@pytest.mark.parametrize("processes", ["1", "2"])
def test_an_awaiting_broker_of_a_web_app_is_as_good(
    shell: Shell, broker: rq_dlq.Broker, processes: str
) -> None:
    broker.queue("awaited").send("a")
    broker.queue("blocked").send("b")
    with shell.process("worker", "app:awaiting", "--burst", "--processes", processes) as worker:
        assert worker.wait(60) == 0
    assert (shell.directory / "awaited").read_text() == "a"
    assert (shell.directory / "blocked").read_text() == "b"


def test_sigterm_finishes_what_has_begun(shell: Shell, broker: rq_dlq.Broker) -> None:
    orders = broker.queue("orders")
    orders.send("slow")
    with shell.process("worker", "app:broker", "-q", "orders:1") as worker:
        wait_until((shell.directory / "slow").exists)
        orders.send("later")
        worker.send_signal(signal.SIGTERM)
        logged(worker, "finishing running calls")  # else "slow" may end before the signal arrives
        (shell.directory / "go").touch()
        assert worker.wait(60) == 0
    assert done(shell) == ["slow"]
    assert orders.stats().ready == 1
    assert orders.stats().leased == 0


def test_processes_are_started_again_and_end_together(shell: Shell, broker: rq_dlq.Broker) -> None:
    orders = broker.queue("orders", lease="1s")
    with shell.process("worker", "app:broker", "--processes", "2") as supervisor:
        parent = psutil.Process(supervisor.pid)
        wait_until(lambda: len(parent.children()) == 2)
        first, second = parent.children()
        first.kill()
        wait_until(lambda: len({*parent.children()} - {first}) == 2)
        assert second.is_running()
        children = parent.children()
        orders.send_many(map(str, range(20)))
        wait_until(lambda: len(done(shell)) == 20)
        orders.send("leave")
        wait_until(lambda: {*parent.children()} - {*children})
        children = parent.children()
        supervisor.send_signal(signal.SIGTERM)
        assert supervisor.wait(60) == 0
        assert not any(child.is_running() for child in children)
        assert supervisor.stderr is not None
        said = supervisor.stderr.read()
        assert "was killed by SIGKILL: restarting it" in said
        assert "ended with exit code 0: restarting it" in said


def test_processes_that_have_handled_enough_are_replaced(shell: Shell, broker: rq_dlq.Broker) -> None:
    orders, sent = broker.queue("orders"), 0
    with shell.process("worker", "app:broker", "--processes", "2", "--max-messages", "20") as supervisor:
        parent = psutil.Process(supervisor.pid)
        wait_until(lambda: len(parent.children()) == 2)
        first = {*parent.children()}

        def replaced() -> bool:
            nonlocal sent
            orders.send_many(map(str, range(sent, sent + 5)))
            sent += 5
            return not first & {*parent.children()}

        wait_until(replaced)
        supervisor.send_signal(signal.SIGTERM)
        _, said = supervisor.communicate(timeout=60)
    assert supervisor.returncode == 0
    assert len(done(shell)) == len({*done(shell)}) == sent - orders.stats().ready
    assert orders.stats().leased == 0
    assert said.count("has reached a limit: a new one takes its place") >= 2
    assert "restarting it in" not in said


def test_a_limit_that_is_reached_sooner_than_processes_start_is_told_once(caplog: Any) -> None:
    """They go on until their turn comes: at once, and then for two seconds after one."""
    supervisor, now = Supervisor(["never"], 2), time.monotonic()
    soon, late = (Slot(number, Mock(), works=True) for number in (1, 2))
    supervisor._slots = [soon, late]
    soon.since, soon.full = now - 9, now - 1
    supervisor._replace_one()
    assert (soon.reloading, [one for one in caplog.messages if "went on" in one]) == (True, [])
    for since, slot in ((3.0, soon), (3.0, late)):
        soon.reloading = late.reloading = False
        soon.full = late.full = None
        slot.since, slot.full = now - since, now - 2
        supervisor._replace_one()
        assert slot.reloading
    (told,) = [one for one in caplog.messages if "went on" in one]
    assert told.startswith("process 1 reached its limit after 1.0 s and went on for 2.")


def test_without_processes_it_ends_in_order(shell: Shell, broker: rq_dlq.Broker) -> None:
    orders = broker.queue("orders")
    orders.send_many(map(str, range(500)))
    with shell.process("worker", "app:broker", "--max-messages", "10", "--burst") as worker:
        _, said = worker.communicate(timeout=60)
    assert worker.returncode == 0
    assert 9 <= len(done(shell)) == orders.stats().totals["acked"] < 300
    assert orders.stats().leased == 0
    assert "messages; max_messages is " in said
    assert "ready (the worker was stopped)" in said


HUNGRY = """
from rq_dlq import Broker

broker, kept = Broker(), []

@broker.queue("orders").handler
def keep(body):
    kept.append(b"x" * (10 << 20))
"""


@pytest.mark.parametrize("limit", ["250MB", str(250 << 20)])
def test_it_ends_when_it_takes_too_much_memory(limit: str, shell: Shell, broker: rq_dlq.Broker) -> None:
    (shell.directory / "app.py").write_text(HUNGRY)
    orders = broker.queue("orders")
    with shell.process("worker", "app:broker", "--max-memory", limit) as worker:
        orders.send_many(range(30))
        _, said = worker.communicate(timeout=60)
    assert worker.returncode == 0
    assert re.search(r"the process takes [2-4]\d\d MB; max_memory is 2\d\d MB here", said)


def test_processes_end_when_their_parent_is_killed(shell: Shell) -> None:
    with shell.process("worker", "app:broker", "--processes", "2") as supervisor:
        parent = psutil.Process(supervisor.pid)
        wait_until(lambda: len(parent.children()) == 2)
        children = parent.children()
        supervisor.kill()
        wait_until(lambda: not any(child.is_running() for child in children))


@pytest.fixture
def imported_here(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This process imports what is in the shell's directory, and forgets it."""
    monkeypatch.chdir(shell.directory)
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = {*sys.modules}
    yield
    for name in {*sys.modules} - before:
        if getattr(sys.modules[name], "__file__", None) == str(shell.directory / f"{name}.py"):
            del sys.modules[name]


@pytest.mark.usefixtures("imported_here")
def test_a_syntax_error_has_one_place(shell: Shell) -> None:
    (shell.directory / "spelt.py").write_text("def\n")
    told = CliRunner(env=shell.env).invoke(main, ["worker", "spelt"])
    text, page = told.output.splitlines()
    assert text.endswith("SyntaxError: invalid syntax (spelt.py, line 1)")
    assert page == "more: rq-dlq error ConfigurationError"


@pytest.mark.usefixtures("imported_here")
@each_row(
    ("words", "said"),
    [
        (["nosuch:broker"], "there is no module 'nosuch'"),
        (["app", "orders"], "'orders' is an extra word: pass only MODULE:BROKER, the Python module and"),
        (
            ["app", "orders"],
            "To choose queues, add -q NAME for each, as in `rq-dlq worker shop:broker -q orders`.",
        ),
        ([], "Missing argument 'MODULE:BROKER', the Python module and the name of the broker in it, such as"),
        ([""], "'' names no module: pass MODULE:BROKER"),
        ([":broker"], "':broker' names no module: pass MODULE:BROKER"),
        (["orders"], "pass the Python module that has the broker; -q NAME chooses a queue"),
        (["app:nosuch"], "app has no 'nosuch'"),
        (["app:nothing"], "app:nothing is of type int, not a Broker of rq_dlq"),
        (["app:empty"], "there is no handler to run"),
        (["app.py"], "app.py is a path: pass the module, app:BROKER"),
        (["app.broker"], "there is no module 'app.broker'"),
        (["app.broker"], "on Python's path: pass app:broker"),
        (["broken"], "broken cannot be imported: ZeroDivisionError"),
        (["needy"], "No module named 'no_such_thing'"),
        (["unguarded"], 'it is imported: put it under the line `if __name__ == "__main__":` ('),
        (["unguarded"], "unguarded.py, line 4)"),
        (["app", "--import-timeout", "soon"], "for '--import-timeout': 'soon' is not a duration"),
        (["app", "--watch", "nosuch"], "Directory 'nosuch' does not exist"),
        (["app", "-q", "nosuch"], "no handler takes the messages of 'nosuch'"),
        (["app", "-q", "orders:0"], "Invalid value for -q: 'orders:0': the number must be 1 or more"),
        (["app", "-q", "orders:5000"], "concurrency 5000: use a whole number from 1 to 1,000"),
        (["app:elsewhere", "--url", "redis://here"], "sets its own URL"),
        (["app:apart", "--namespace", "mine"], "sets its own namespace, apart"),
        (["app", "--processes", "0"], "0 is not in the range"),
        (["app", "--max-messages", "0"], "0 is not in the range"),
        (["app", "--max-memory", "much"], "max_memory is 'much'. Pass text such as \"64MB\" (kB, MB, GB)"),
    ],
)
def test_what_cannot_run_is_told(shell: Shell, words: list[str], said: str) -> None:
    (shell.directory / "broken.py").write_text("1 / 0\n")
    (shell.directory / "unguarded.py").write_text(UNGUARDED)
    (shell.directory / "needy.py").write_text("import no_such_thing\n")
    told = CliRunner(env=shell.env).invoke(main, ["worker", *words])
    assert told.exit_code == 2
    assert said in " ".join(told.output.split())
    assert "Traceback" not in told.output


def test_an_import_that_does_not_end_is_told(shell: Shell) -> None:
    (shell.directory / "endless.py").write_text(ENDLESS)
    with shell.process("worker", "endless", "--import-timeout", "300ms") as worker:
        _, stderr = worker.communicate(timeout=60)
    assert worker.returncode == 2
    said = " ".join(stderr.split())
    assert "endless is not imported after 0.3 s; it is at" in said
    assert "endless.py, line 4. Put the code that it runs under the line `if " in said
    assert "Traceback" not in stderr


def test_a_server_that_was_never_there_is_code_3(shell: Shell, tmp_path: Path) -> None:
    shell.env["RQ_DLQ_URL"] = f"unix://{tmp_path}/none.sock"
    for options in ([], ["--processes", "2"]):
        with shell.process("worker", "app:broker", *options) as worker:
            _, stderr = worker.communicate(timeout=60)
        assert worker.returncode == 3
        assert "cannot reach" in stderr


@pytest.mark.parametrize("processes", ["1", "2"])
def test_the_first_ctrl_c_ends_it(shell: Shell, processes: str) -> None:
    """At a terminal, where Ctrl-C reaches all processes of the foreground."""
    main, terminal = os.openpty()
    words = [sys.executable, "-m", "rq_dlq", "worker", "app:broker", "--processes", processes]
    with Started(
        words,
        cwd=shell.directory,
        env=os.environ | shell.env,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
        preexec_fn=own_terminal,  # no thread of this process holds a lock that it needs
    ) as worker:
        os.close(terminal)
        said = b""
        while said.count(b"mails: up to 1 concurrent calls") < int(processes):
            said += os.read(main, 4096)
        os.write(main, b"\x03")
        assert worker.wait(60) == 0
        said += os.read(main, 4096)
    assert b"SIGINT" in said
    assert b"Traceback" not in said
    os.close(main)


STUCK = """
import asyncio, pathlib, time
import rq_dlq.cli.worker, rq_dlq.worker.worker
from rq_dlq import Broker

rq_dlq.worker.worker.GRACE, rq_dlq.cli.worker.WITHIN = 0.2, 1.0
broker = Broker()
here = pathlib.Path(__file__).parent

@broker.queue("executor").handler
async def wait(body):
    (here / "begun").touch()
    await asyncio.to_thread(time.sleep, 600)

@broker.queue("frozen").handler(concurrency=4)
def compute(body):
    (here / "begun").touch()
    while True:
        time.sleep(0.01)
"""


@pytest.mark.parametrize("by", ["executor", "frozen"])
def test_nothing_keeps_it_after_a_second_signal(by: str, shell: Shell, tmp_path: Path) -> None:
    """Neither a thread of an executor, for which Python would wait, nor a Redis that answers nothing."""
    (shell.directory / "stuck.py").write_text(STUCK)
    server = Server(tmp_path / "server")
    server.start()
    shell.env["RQ_DLQ_URL"] = server.url
    queue = rq_dlq.Broker(server.url, namespace=shell.namespace).queue(by)
    queue.send("x")
    try:
        with shell.process("worker", "stuck:broker") as worker:
            wait_until((shell.directory / "begun").exists)
            if by == "frozen":
                server.signal(signal.SIGSTOP)
            for word in ("finishing", "cancelling"):  # two signals at once would be one
                worker.send_signal(signal.SIGTERM)
                logged(worker, word)
            _, said = worker.communicate(timeout=60)
            server.signal(signal.SIGCONT)
        stats = queue.stats()  # a frozen Redis may still carry out what was sent to it: released, or leased
        assert (worker.returncode, stats.ready + stats.leased) == (1, 1)
        assert stats.ready or by == "frozen"
    finally:
        server.kill()
    assert "ends 1 s after the second signal, with code still running" in said


def own_terminal() -> None:
    """Make the terminal that of the new session."""
    os.close(os.open(os.ttyname(0), os.O_RDWR))


def test_each_failure_is_a_line_and_verbose_has_the_tracebacks(shell: Shell, broker: rq_dlq.Broker) -> None:
    app = shell.directory / "app.py"
    app.write_text(APP.replace('if body == "leave":', "1 / int(body)\n    if not body:"))
    for options, tracebacks in (([], 0), (["-v"], 1)):
        broker.queue("orders").send("0", id="m")
        with shell.process("worker", "app:broker", "--burst", *options) as worker:
            _, stderr = worker.communicate(timeout=60)
        assert re.search(
            r"^\S+ orders m: try 1 of 13 failed: ZeroDivisionError: .*; back in", stderr, re.MULTILINE
        )
        assert "no message is ready: 0 done, 1 failed, 0 dead; left: orders: 1 scheduled" in stderr
        assert stderr.count("Traceback") == tracebacks
        broker.queue("orders").purge(all=True)


def test_watch_restarts_it_when_a_file_changes(shell: Shell, broker: rq_dlq.Broker) -> None:
    orders = broker.queue("orders")
    with shell.process("worker", "app:broker", "--watch", ".") as supervisor:
        parent = psutil.Process(supervisor.pid)
        orders.send("first")
        wait_until(lambda: done(shell) == ["first"])
        (first,) = parent.children()
        changed = APP.replace('f"{body}', 'f"new-{body}')
        (shell.directory / "app.py").write_text(changed)
        wait_until(lambda: {*parent.children()} - {first} and not first.is_running())
        orders.send("second")
        wait_until(lambda: done(shell) == ["first", "new-second"])
        supervisor.send_signal(signal.SIGINT)
        _, stderr = supervisor.communicate(timeout=60)
    assert supervisor.returncode == 0
    assert f" {shell.directory}/app.py changed: restarting" in stderr


def test_ls_says_who_works_on_what(shell: Shell, broker: rq_dlq.Broker) -> None:
    assert "no worker has reported lately" in shell("worker", "ls").stderr
    broker.queue("orders").send("slow")
    with shell.process("worker", "app:broker", "-q", "orders:3") as process:
        wait_until((shell.directory / "slow").exists)
        wait_until(lambda: [row["held"] for row in shell.json("worker", "ls")] == [1])
        (row,) = shell.json("worker", "ls")
        process.kill()
        process.wait()
        assert row["process"].endswith(f":{process.pid}")
        assert (row["state"], row["done"], row["rq_dlq_version"]) == ("working", 0, rq_dlq.__version__)
        (orders,) = row["queues"].values()
        assert (orders["concurrency"], orders["held"]) == (3, 1)
        shown = shell("worker", "ls")
        assert "orders:3" in shown.stdout
        assert "no maintenance process" in shown.stderr
        (after,) = shell.json("worker", "ls")  # until it is silent for a minute
        assert after["process"] == row["process"]


def test_it_answers_probes(shell: Shell, broker: rq_dlq.Broker) -> None:
    alive = shell.directory / "alive"
    options = ["--health", "0", "--heartbeat-file", str(alive)]
    broker.queue("orders").send("slow")
    with shell.process("worker", "app:broker", *options) as worker:
        port = port_of(worker)
        wait_until((shell.directory / "slow").exists)
        wait_until(lambda: ask(port, "/readyz")[0] == 200)
        assert "ok   redis: answers\n" in ask(port, "/readyz")[1]
        assert ask(port, "/livez")[0] == 200
        assert alive.exists()
        worker.terminate()
        wait_until(lambda: "fail process: stopping\n" in ask(port, "/readyz")[1])
        assert ask(port, "/livez")[0] == 200
        (shell.directory / "go").touch()
        _, stderr = worker.communicate(timeout=60)
    assert worker.returncode == 0, stderr
    assert not alive.exists()


def port_of(process: subprocess.Popen[str]) -> int:
    """Where it answers, as its log says."""
    assert process.stderr is not None
    while (found := re.search(r"http://127.0.0.1:(\d+) answers", process.stderr.readline())) is None:
        assert process.poll() is None
    return int(found[1])


def test_a_port_that_is_taken_is_told(shell: Shell) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for words in (["worker", "app:broker"], ["maintain"]):
            with shell.process(*words, "--health", port) as process:
                _, stderr = process.communicate(timeout=60)
            assert process.returncode == 2
            assert f"cannot listen on 127.0.0.1:{port}: Address already in use; choose another" in stderr


def test_probes_are_for_one_process(shell: Shell) -> None:
    for option in (["--health", "8081"], ["--heartbeat-file", "alive"]):
        told = shell("worker", "app:broker", "--processes", "2", *option, code=2).stderr
        assert "--health and --heartbeat-file are for one process" in " ".join(told.split())


def test_systemd_hears_of_the_parent_alone(shell: Shell) -> None:
    address = shell.directory / "notify"
    shell.env["NOTIFY_SOCKET"] = str(address)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(address))
        manager.settimeout(60)
        with shell.process("worker", "app:broker", "--processes", "2") as supervisor:
            said = b""
            while b"READY=1" not in said:
                said = manager.recv(4096)
            wait_until(lambda: len(shell.json("worker", "ls")) == 2)
            supervisor.terminate()
            _, stderr = supervisor.communicate(timeout=60)
        assert supervisor.returncode == 0, stderr
        said = manager.recv(4096)
    assert said.endswith(b"STOPPING=1")
