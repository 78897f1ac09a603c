"""`rq-dlq gather …`."""

from __future__ import annotations

import json

import rq_dlq
from tests.cli.conftest import Shell


def opened(broker: rq_dlq.Broker) -> None:
    """A gather of three children, one of which is done."""
    pages = broker.queue("pages")
    with broker.gather(then=(broker.queue("reports"), rq_dlq.Message(7, id="report-7"))) as gather:
        for page in range(3):
            gather.send(pages, page, id=f"page-{page}")
    pages.claim()[0].ack()


def test_gathers_are_listed(shell: Shell, broker: rq_dlq.Broker) -> None:
    assert "there are no gathers that wait" in shell("gather", "ls").stderr
    opened(broker)
    (row,) = map(json.loads, shell("gather", "ls", "reports", "-o", "jsonl").stdout.splitlines())
    assert (row["id"], row["state"], row["children"], row["open"]) == ("report-7", "closed", 3, 2)
    assert (row["ends"], row["first_open"]) == ("1 acked", "page-1, page-2")
    assert "pages has no gathers that wait" in shell("gather", "ls", "pages").stderr


def test_a_gather_is_shown(shell: Shell, broker: rq_dlq.Broker) -> None:
    opened(broker)
    shown = shell("gather", "show", "reports", "report-7", "-o", "jsonl")
    assert "report-7 in reports is closed: 2 of 3 children open, the oldest page-1, page-2" in shown.stderr
    rows = [json.loads(line) for line in shown.stdout.splitlines()]
    assert [(row["id"], row["end"]) for row in rows] == [
        ("page-1", "open"),
        ("page-2", "open"),
        ("page-0", "acked"),
    ]
    assert (
        len(shell("gather", "show", "reports", "report-7", "--open", "-o", "jsonl").stdout.splitlines()) == 2
    )
    assert "has no gather page-1" in shell("gather", "show", "pages", "page-1", code=1).stderr
