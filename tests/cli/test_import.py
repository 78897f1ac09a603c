"""`rq-dlq policy import`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import rq_dlq
from rq_dlq.cli import main, policy
from tests.cli.conftest import Shell
from tests.tables import each_row

DATA = Path(__file__).parents[2] / "examples"
BROKER, ACTIVEMQ = str(DATA / "broker.xml"), str(DATA / "activemq.xml")


def core(*settings: str, match: str = "a") -> str:
    inner = "\n".join(settings)
    block = f'<address-setting match="{match}">\n{inner}\n</address-setting>'
    return f"<core><address-settings>{block}</address-settings></core>"


@pytest.mark.parametrize(
    ("file", "pattern", "row"),
    [
        (
            BROKER,
            "orders.#",
            {"line": 31, "setting": "redelivery-delay", "value": "5000", "becomes": 5000},
        ),
        (
            ACTIVEMQ,
            "orders.#",
            {"line": 41, "setting": "initialRedeliveryDelay", "value": "5000", "becomes": 5000},
        ),
    ],
)
def test_a_dry_run_tells_what_each_setting_becomes(
    shell: Shell, broker: rq_dlq.Broker, file: str, pattern: str, row: dict[str, object]
) -> None:
    rows = shell.json("policy", "import", file, "--dry-run")
    (found,) = (
        one for one in rows if one["pattern"] == pattern and one["field"] == "redelivery.initial_delay"
    )
    assert found | row == found
    assert (found["file"], found["outcome"]) == (file, "becomes")
    told = shell("policy", "import", file, "--dry-run")
    name = Path(file).name
    _, *lines = told.stdout.splitlines()
    assert any(f"{pattern} redelivery.initial_delay = 5s" in " ".join(line.split()) for line in lines)
    assert all(line.startswith((f"{name}:", "    ")) and len(line) <= 120 for line in lines)
    assert "4 entries would be set; nothing was changed (--dry-run)" in told.stderr
    assert broker.policies.read().entries == {}


def test_a_narrow_terminal_breaks_no_words(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy, "PAGE_WIDTH", 1_000)
    wide = shell("policy", "import", BROKER, "--dry-run").stdout
    monkeypatch.setattr(policy, "PAGE_WIDTH", 80)
    heading, *lines = shell("policy", "import", BROKER, "--dry-run").stdout.splitlines()
    assert heading.split() == ["at", "in"]
    assert all(len(line.rstrip()) <= 80 for line in lines)
    assert " ".join(lines).split() == wide.split()[5:]
    assert all(line.startswith(("broker.xml:", "    ")) and line.strip() for line in lines)


def test_it_sets_what_the_dry_run_told(shell: Shell, broker: rq_dlq.Broker) -> None:
    told = shell("policy", "import", BROKER)
    assert "set orders.#: it matches 0 queues" in told.stderr
    assert "4 lines above have no counterpart" in told.stderr
    orders = broker.queue("orders.eu").settings()
    assert (orders.redelivery.arithmetic.NAME, orders.redelivery.max_redeliveries) == ("artemis", 5)
    shell("policy", "import", ACTIVEMQ)
    assert broker.queue("orders.eu").settings().redelivery.arithmetic.NAME == "activemq"


def test_a_dry_run_needs_no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RQ_DLQ_URL", raising=False)
    monkeypatch.setattr(rq_dlq.Broker, "_connected", lambda _: pytest.fail("it asks a server"))
    result = CliRunner().invoke(main, ["policy", "import", BROKER, "--dry-run", "-o", "json"])
    assert result.exit_code == 0
    assert [row["line"] for row in json.loads(result.stdout)[:2]] == [2, 4]


def test_queues_may_be_called_otherwise_here(shell: Shell, broker: rq_dlq.Broker, tmp_path: Path) -> None:
    file = tmp_path / "broker.xml"
    file.write_text(core("<max-delivery-attempts>3</max-delivery-attempts>", match="jms queue"))
    told = shell("policy", "import", str(file))
    assert "there is nothing in" in told.stderr
    assert "--map 'jms queue=…'" in told.stdout
    shell("policy", "import", str(file), "--map", "jms queue=orders.*")
    assert list(broker.policies.read().entries) == ["orders.*"]
    typo = shell("policy", "import", str(file), "--map", "jms quue=x", code=2)
    assert "there is no 'jms quue' in" in typo.stderr
    assert "not of the form" in shell("policy", "import", str(file), "--map", "x", code=2).stderr
    bad = shell("policy", "import", str(file), "--map", "jms queue=a b", code=1).stderr
    assert f"{file}:1: match: 'a b' is not a pattern" in bad


def test_a_name_that_is_a_queue_s_is_given_to_letters_too(
    shell: Shell, broker: rq_dlq.Broker, tmp_path: Path
) -> None:
    broker.queue("DLQ").send("a")
    file = tmp_path / "broker.xml"
    file.write_text(core("<no-expiry>true</no-expiry>", "<dead-letter-address>DLQ</dead-letter-address>"))
    shell("policy", "import", str(file))
    assert broker.policies.explain("a").dead_name == "DLQ"
    assert broker.queue("DLQ").stats().ready == 1


@each_row(
    ("text", "said"),
    [
        ("", ":1: not XML: no element found"),
        ("<core>\n<a></core>", ":2: not XML: mismatched tag"),
        ("<!DOCTYPE core [<!ENTITY a 'b'>]>\n<core/>", ":1: it has a DOCTYPE"),
        ("<html/>", ":1: html: <html> is neither Artemis'"),
        (core("<redelivery-delay>5s</redelivery-delay>"), ":2: redelivery-delay: '5s' is not a whole number"),
        (core("<redelivry-delay>5</redelivry-delay>"), ":2: redelivry-delay: an address-setting has no such"),
        (
            core("<redelivery-delay>9</redelivery-delay>", "<max-redelivery-delay>5</max-redelivery-delay>"),
            ":3: max-redelivery-delay: redelivery-delay (9ms) is longer than max-redelivery-delay (5ms)",
        ),
        (
            "<broker><policyEntries>\n<policyEntry queue='a'\n useCach='1'/></policyEntries></broker>",
            ":3: useCach: policyEntry has no such setting (the closest is useCache)",
        ),
    ],
)
def test_what_is_wrong_is_named_and_nothing_is_changed(
    shell: Shell, broker: rq_dlq.Broker, tmp_path: Path, text: str, said: str
) -> None:
    file = tmp_path / "broker.xml"
    file.write_text(text)
    for words in ([], ["--dry-run"]):
        told = shell("policy", "import", str(file), *words, code=1)
        assert f"{file}{said}" in told.stderr
        assert f"1 problem in {file}, so nothing was changed" in told.stderr
        assert told.stdout == ""
    assert broker.policies.read().entries == {}


def test_a_file_that_is_not_there_is_code_2(shell: Shell) -> None:
    assert "does not exist" in shell("policy", "import", "nowhere.xml", code=2).stderr
