"""`rq-dlq load`: the library of this version, and those of others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from rq_dlq._scripts import JOINED
from rq_dlq.client.settings import version_of
from rq_dlq.core.processes import processes
from rq_dlq.core.processes.processes import LIBRARY_EVERY, Reporter
from rq_dlq.testing.clock import MOVED_CLOCK
from rq_dlq.values.failure import moment
from rq_dlq.values.process import ProcessReport
from tests.cli.conftest import Shell
from tests.needs import need_release
from tests.servers.acl import rules_of

pytestmark = pytest.mark.form("functions")
OWN, OTHER = JOINED.library.name, MOVED_CLOCK.library.name
DAY = 24 * 3600.0


@pytest.fixture
def emptied(shell: Shell, redis_client: Any) -> Iterator[Any]:
    """Without libraries."""
    assert shell.url
    need_release(version_of(redis_client.info("server")["redis_version"]), 7)
    redis_client.flushall()
    redis_client.function_flush()
    yield redis_client
    redis_client.function_flush()
    for user in set(redis_client.acl_users()) - {"default"}:
        redis_client.acl_deluser(user)


def test_it_loads_the_library_once(emptied: Any, shell: Shell) -> None:
    for done in ("loaded", ""):
        (row,) = shell.json("load")
        assert (row["library"], row["own"], row["done"]) == (OWN, True, done)
        assert row["size"] == len(JOINED.library.source)
    assert emptied.info("commandstats")["cmdstat_function|load"]["calls"] >= 1
    said = shell("load")
    assert "this version" in said.stdout
    assert "KiB of memory" in said.stderr


def test_it_deletes_those_that_no_process_has_reported_for_a_day(emptied: Any, shell: Shell) -> None:
    emptied.function_load(MOVED_CLOCK.library.source)
    now = int(emptied.time()[0])
    text = f'{{"seen_at":"%s","period":{LIBRARY_EVERY},"library":"{OTHER}"}}'
    field, key = f"library/{OTHER}", f"{shell.namespace}:processes"
    for ago, left in ((3600.0, {OWN, OTHER}), (DAY + 60, {OWN})):
        at = moment(int((now - ago) * 1000)).isoformat()
        emptied.hset(key, field, text % at)
        before = {row["library"]: row for row in shell.json("load")}
        assert before.keys() == {OWN, OTHER}
        assert (before[OTHER]["used"] is None) is (left == {OWN})
        done = {row["library"]: row["done"] for row in shell.json("load", "--prune")}
        assert {name for name, what in done.items() if what != "deleted"} == left
        assert {row["library"] for row in shell.json("load")} == left
    assert not emptied.hexists(key, field)


def test_a_user_who_may_not_load_is_refused(emptied: Any, shell: Shell) -> None:
    emptied.execute_command("ACL", "SETUSER", "ann", *rules_of("consumer", emptied), ">secret")
    ann = Shell(shell.url.replace("unix://", "unix://ann:secret@"), "rq", shell.directory)
    assert "lacks +function|list" in ann("load", code=3).output


@pytest.mark.parametrize("settled", [False, True])
def test_a_library_stays_reported_after_its_process(
    sync_broker: Any, monkeypatch: pytest.MonkeyPatch, settled: bool
) -> None:
    """Unless the process ended at once."""
    if settled:
        monkeypatch.setattr(processes, "SETTLED", 0)
    reporter = Reporter(ProcessReport(process="host:1", period=5000, library=OTHER))

    def used() -> set[str]:
        return set(sync_broker._run(processes.libraries("rq")))

    sync_broker._run(reporter.note("rq"))
    assert used() == {OTHER}
    sync_broker._run(reporter.leave("rq"))
    assert used() == ({OTHER} if settled else set())
    assert sync_broker._run(processes.processes("rq")) == []
