"""`manage.py rq_dlq …`: the command line with the broker of the settings."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.management import call_command
from django.test import override_settings

from rq_dlq import Broker
from tests.checkout import ROOT
from tests.django.conftest import SHOP


@pytest.fixture
def url(empty_socket: str) -> str:
    return f"unix://{empty_socket}"


def test_it_runs_a_command_with_the_settings(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    with Broker(url, namespace="mine") as broker:
        broker.queue("orders").send(1)
    with override_settings(RQ_DLQ={"url": url, "namespace": "mine"}), pytest.raises(SystemExit) as ended:
        call_command("rq_dlq", "queue", "ls", "-o", "json")
    assert ended.value.code in {0, None}
    assert [row["name"] for row in json.loads(capsys.readouterr().out)] == ["orders"]


def test_options_come_before_the_settings(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    with override_settings(RQ_DLQ={"url": "unix:///nowhere", "namespace": "mine"}):
        with pytest.raises(SystemExit):
            call_command("rq_dlq", "queue", "ls", "--url", url, "-o", "json")
        assert json.loads(capsys.readouterr().out) == []
        with pytest.raises(SystemExit) as ended:
            call_command("rq_dlq", "queue", "ls")
    assert ended.value.code == 3


def test_a_wrong_setting_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    with override_settings(RQ_DLQ={"URL": "redis://x"}), pytest.raises(SystemExit) as ended:
        call_command("rq_dlq", "doctor")
    assert ended.value.code == 2
    assert "did you mean 'url'?" in capsys.readouterr().err


def test_advice_is_what_is_typed(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    for words, line in (
        (("ls",), "it is `manage.py rq_dlq queue ls`."),
        (("start",), "it is `manage.py rq_dlq worker`."),
        (("worker", "ls"), "no worker has reported lately: `manage.py rq_dlq worker` starts one"),
    ):
        with override_settings(RQ_DLQ={"url": url}), pytest.raises(SystemExit):
            call_command("rq_dlq", *words)
        assert line in " ".join(capsys.readouterr().err.split())


def manage(url: str, tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run `manage.py` as a program, in another directory than its own."""
    environment = {
        **os.environ,
        "REDIS_URL": url,
        "SHOP_DATABASE": str(tmp_path / "shop.sqlite3"),
        "PYTHONPATH": str(ROOT),
    }
    environment.pop("DJANGO_SETTINGS_MODULE", None)
    return subprocess.run(
        [sys.executable, str(SHOP / "manage.py"), *words],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_a_worker_needs_no_app_and_has_processes(url: str, tmp_path: Path) -> None:
    assert manage(url, tmp_path, "migrate", "-v", "0").returncode == 0
    with Broker(url, namespace="shop") as broker:
        call = {"task": "no.such.task", "args": [], "kwargs": {}, "priority": 0}
        broker.queue("mails").send({**call, "enqueued_at": "2030-01-01T00:00:00Z"})
        ran = manage(
            url, tmp_path, "rq_dlq", "worker", "--burst", "--processes", "2", "--settings", "shop.settings"
        )
        assert ran.returncode == 0, ran.stderr
        assert "default: up to 1 concurrent calls" in ran.stderr
        assert "1 failed" in ran.stderr
        assert broker.queue("mails").stats().scheduled == 1
    told = manage(url, tmp_path, "rq_dlq", "worker", "--help")
    assert "Usage: manage.py rq_dlq worker [OPTIONS]\n" in told.stdout
    assert "`manage.py rq_dlq worker ls` lists the worker processes" in told.stdout
    assert "  manage.py rq_dlq worker --processes 4\n" in told.stdout
    assert "MODULE:BROKER" not in told.stdout
    assert "rq-dlq" not in told.stdout
    assert (told.returncode, "--processes" in told.stdout, "--max-memory" in told.stdout) == (0, True, True)
