"""Commands with a hostile text in them (T25), and what is meant to come of each."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import rq_dlq
from rq_dlq.cli._context import FAILED, USAGE
from rq_dlq.errors import InvalidInput, RqDlqError

Same = Callable[[rq_dlq.Broker, str], object]
PIPED = "from a pipe"


def nothing(broker: rq_dlq.Broker, text: str) -> None:
    """It takes every text."""
    del broker, text


def always(broker: rq_dlq.Broker, text: str) -> bool:
    """It changes nothing."""
    del broker, text
    return True


@dataclass(frozen=True)
class Typed:
    """A command line, in which {} is the text.

    Attributes:
        same: does the same through the API: what that refuses the command refuses, the rest it takes.
        refused: the exit codes that may come of that.
        piped: what it reads.
        came: whether what it was to do was done.
        harmless: a text that it takes.
    """

    command: str
    same: Same = nothing
    refused: tuple[int, ...] = (USAGE,)
    piped: Callable[[str], str] | None = None
    came: Callable[[rq_dlq.Broker, str], bool] = always
    harmless: str | Callable[[rq_dlq.Broker], str] = "word"

    def words(self, text: str) -> list[str]:
        """With the text in its place."""
        return [word.replace("{}", text) for word in self.command.split()]

    def takes(self, text: str) -> bool:
        """Whether it can be typed: no argument of a program holds a NUL."""
        return "{}" not in self.command or "\0" not in text

    def meant(self, broker: rq_dlq.Broker, text: str) -> tuple[int, ...]:
        """The exit codes that are meant."""
        try:
            self.same(broker, text)
        except RqDlqError:
            return self.refused
        return (0,)


def _messages(broker: rq_dlq.Broker, queue: str) -> list[Any]:
    return broker.queue(queue).peek(1_000)


def _bodies(broker: rq_dlq.Broker, queue: str) -> list[Any]:
    return [message.body for message in _messages(broker, queue)]


def _line(text: str) -> str:
    """A text as the one line of a file."""
    return text.replace("\n", " ")


def _has_header(broker: rq_dlq.Broker, text: str) -> bool:
    return any(
        message.body == PIPED and message.headers == {"a": text} for message in _messages(broker, "safe")
    )


def _is_used(broker: rq_dlq.Broker, text: str) -> None:
    broker.queue(text).send("x")


def _is_there(broker: rq_dlq.Broker, text: str) -> None:
    broker.queue("safe").send("x", id=text)


def _is_a_group(broker: rq_dlq.Broker, text: str) -> None:
    (group,) = broker.queue("safe").dlq.groups()
    if group.fingerprint != text:
        message = "there is no such group"
        raise InvalidInput(message)


def _its_group(broker: rq_dlq.Broker) -> str:
    (group,) = broker.queue("safe").dlq.groups()
    return group.fingerprint


def _has_three(broker: rq_dlq.Broker, text: str) -> bool:
    del text
    return any(entry.stored.get("max_in_flight") == 3 for entry in broker.policies.read().entries.values())


COMMANDS = (
    Typed(
        "send -- {}",
        _is_used,
        piped=lambda _: PIPED,
        came=lambda broker, text: PIPED in _bodies(broker, text),
    ),
    Typed(
        "send safe --header a={}",
        lambda broker, text: broker.queue("safe").send("x", headers={"a": text}),
        refused=(FAILED,),  # it says so of the line that would have had it
        piped=lambda _: PIPED,
        came=_has_header,
    ),
    Typed(
        "send safe --jsonl",
        lambda broker, text: broker.queue("safe").send(text),
        refused=(FAILED,),
        piped=json.dumps,
        came=lambda broker, text: text in _bodies(broker, "safe"),
    ),
    Typed(
        "send safe",
        lambda broker, text: broker.queue("safe").send(_line(text)),
        refused=(FAILED,),
        piped=lambda text: f"{_line(text)}\n",
        came=lambda broker, text: _line(text).removesuffix("\r") in _bodies(broker, "safe"),
    ),
    Typed("peek -- {}", _is_used, refused=(FAILED, USAGE), harmless="safe"),
    Typed("peek safe"),
    Typed("queue show -- {}", _is_used, refused=(FAILED, USAGE), harmless="safe"),
    Typed("queue ls"),
    Typed("msg show safe -- {}", _is_there),
    Typed("msg explain safe -- {}", _is_there),
    Typed(
        "msg ls safe --where {}",
        lambda broker, text: broker.queue("safe").select(text).count(),
        harmless="delivery_count > 0",
    ),
    Typed("dlq show safe -- {}", _is_there),
    Typed("dlq groups safe"),
    Typed("dlq ls safe --group {}", _is_a_group, refused=(FAILED,), harmless=_its_group),
    Typed(
        "policy set --max-in-flight 3 -- {}",
        lambda broker, text: broker.policies.set(text, max_in_flight=7),
        came=_has_three,
    ),
    Typed("policy explain -- {}", lambda broker, text: broker.policies.explain(text)),
    Typed("policy ls"),
)
