"""Logs as JSON: an object a line, whatever a message says."""

from __future__ import annotations

import io
import json
import logging
import logging.config
import re
from collections.abc import Iterator
from typing import Any

import pytest

import rq_dlq
from rq_dlq.telemetry.json_logs import JSONFormatter, instrument
from rq_dlq.worker import Worker
from tests.behaviour.helpers import after, one
from tests.worker.test_handlers import COLOURS, register

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00")


class Log:
    """A logger that writes JSON, and what it wrote."""

    def __init__(self, logger: logging.Logger) -> None:
        self.stream = io.StringIO()
        self.handler = logging.StreamHandler(self.stream)
        self.handler.setFormatter(JSONFormatter())
        self.logger = logger
        self.logger.addHandler(self.handler)
        self.logger.setLevel(logging.INFO)

    def lines(self) -> list[dict[str, Any]]:
        """The objects; each is one line."""
        return [json.loads(line) for line in self.stream.getvalue().splitlines()]

    def line(self) -> dict[str, Any]:
        """The only one, without its time."""
        (line,) = self.lines()
        assert TIME.fullmatch(line.pop("time"))
        return line


@pytest.fixture
def log() -> Log:
    # Outside the tree of loggers: pytest's reports, which would have its text, cannot hold lone surrogates.
    return Log(logging.Logger("rq_dlq.test"))  # noqa: LOG001


def test_a_line(log: Log) -> None:
    log.logger.warning("%d orders", 3)
    assert log.line() == {"level": "WARNING", "logger": "rq_dlq.test", "message": "3 orders"}


def test_extra_fields(log: Log) -> None:
    class Order:
        def __str__(self) -> str:
            return "order 7"

    fields = {"tenant": "acme", "n": 3, "order": Order(), "tags": ["a"], "level": "mine", "exception": 0}
    log.logger.info("paid", extra=fields)
    line = log.line()
    assert (line["tenant"], line["n"], line["order"], line["tags"]) == ("acme", 3, "order 7", ["a"])
    assert line["level"] == "INFO"


@pytest.mark.parametrize(
    "text",
    ["a\nb", "a\r\n{}", "\x00\x1b[2J", "\x85\u2028\u2029", "\u202e\u2066", 'a"b\\', "\udc80", "\x7f\x9b31m"],
    ids=ascii,
)
def test_no_text_breaks_a_line(log: Log, text: str) -> None:
    log.logger.error("%s", text, extra={"tenant": text, text: 1, "n": 2})
    written = log.stream.getvalue()
    assert written.endswith("}\n")
    assert len(written.splitlines()) == 1  # by any of the separators that Python knows
    assert written[:-1].isprintable()
    line = log.line()
    shown = text.encode(errors="backslashreplace").decode()
    assert (line["message"], line["tenant"], line["n"]) == (shown, shown, 2)


@pytest.mark.parametrize("value", [float("nan"), 1 << 80, {1j: 2}, {"a": "\udc80"}, b"\xff"], ids=ascii)
def test_strange_fields_lose_no_line(log: Log, value: object) -> None:
    log.logger.info("paid", extra={"value": value, "n": 2})
    line = log.line()
    assert "value" in line
    assert line["n"] == 2


def test_an_exception(log: Log) -> None:
    try:
        int("no\nway")
    except ValueError:
        log.logger.exception("failed", stack_info=True)
    line = log.line()
    assert line["exception"].startswith("Traceback (most recent call last):\n")
    assert line["exception"].endswith(r"ValueError: invalid literal for int() with base 10: 'no\nway'")
    assert line["stack"].startswith("Stack (most recent call last):\n")


def test_by_dict_config(capsys: pytest.CaptureFixture[str]) -> None:
    logger = logging.getLogger("rq_dlq.configured")
    logging.config.dictConfig(
        {
            "version": 1,
            "disable_existing_loggers": False,
            "formatters": {"json": {"()": "rq_dlq.telemetry.json_logs.JSONFormatter"}},
            "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "json"}},
            "loggers": {"rq_dlq.configured": {"handlers": ["stderr"], "propagate": False}},
        }
    )
    logger.error("hello")
    assert json.loads(capsys.readouterr().err)["message"] == "hello"
    logger.handlers.clear()


async def test_a_with_block_names_its_message(broker: Any, log: Log) -> None:
    instrument(getattr(broker, "inner", broker))
    queue = broker.queue("orders")
    await queue.send("body", id="m")
    async with await one(queue):
        log.logger.info("inside")
    log.logger.info("outside")
    inside, outside = log.lines()
    assert (inside["queue"], inside["message_id"], inside["delivery_count"]) == ("orders", "m", 1)
    assert "queue" not in outside


@pytest.fixture
def worker_log() -> Iterator[Log]:
    log = Log(logging.getLogger("rq_dlq"))
    yield log
    log.logger.removeHandler(log.handler)


@COLOURS
@pytest.mark.parametrize("traced", [False, True], ids=["", "traced"])
def test_a_worker(colour: str, traced: bool, redis_socket: str, raw: Any, worker_log: Log) -> None:
    del raw
    with rq_dlq.Broker(f"unix://{redis_socket}", namespace=f"json-{colour[:1]}-{traced}") as broker:
        if traced:
            tracing = pytest.importorskip("rq_dlq.telemetry.tracing")
            tracing.instrument(
                broker, tracer_provider=pytest.importorskip("opentelemetry.sdk.trace").TracerProvider()
            )
        instrument(broker)
        queue = broker.queue("orders", type=str, redelivery=after("1h", most=0))

        def work(body: str, _: Any) -> None:
            logging.getLogger("rq_dlq.app").info("working")
            if body == "dies":
                raise ValueError("a\nb")

        register(queue, colour, work)
        queue.send("works", id="works")
        queue.send("dies", id="dies")
        broker.queue("orders").send(b"7,", id="no text")
        Worker(broker, until="empty").run()
    lines = worker_log.lines()
    working = {line["message_id"]: line for line in lines if line["message"] == "working"}
    failed = {line["message_id"]: line for line in lines if "failed:" in line["message"]}
    assert (sorted(working), sorted(failed)) == (["dies", "works"], ["dies", "no text"])
    assert "ValueError" in failed["dies"]["exception"]
    assert (failed["dies"]["queue"], failed["dies"]["delivery_count"]) == ("orders", 1)
    if traced:
        assert working["dies"]["trace_id"] == failed["dies"]["trace_id"] != working["works"]["trace_id"]
        assert working["dies"]["span_id"] == failed["dies"]["span_id"]
