"""The setting `RQ_DLQ` of a Django project."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import DEFAULT_DB_ALIAS

from rq_dlq.client.settings import BrokerSettings
from rq_dlq.errors import ConfigurationError
from rq_dlq.errors.guesses import sentence_for
from rq_dlq.values.durations import shown

if TYPE_CHECKING:
    from collections.abc import Iterator

USING = "using"
"""Beside the fields of `BrokerSettings`: the database whose commit a send awaits."""


def given() -> Mapping[str, Any]:
    """The setting as it is written; empty: there is none."""
    return getattr(settings, "RQ_DLQ", {})


def using() -> str:
    """The alias of the database whose commit a send awaits."""
    return str(given().get(USING, DEFAULT_DB_ALIAS))


def of_broker() -> BrokerSettings:
    """The settings of the project's broker.

    Raises:
        ConfigurationError: the setting is no dict, has an unknown name, or a value is not valid.
    """
    setting: object = given()
    if not isinstance(setting, Mapping):
        message = f'RQ_DLQ is {shown(setting)}: set it to a dict, as in RQ_DLQ = {{"url": "redis://…"}}'
        raise ConfigurationError(message)
    known = {*BrokerSettings.__dataclass_fields__, USING}
    if unknown := [name for name in given() if name not in known]:
        raise ConfigurationError("; ".join(_answers(unknown, sorted(known))))
    return BrokerSettings(**{name: value for name, value in given().items() if name != USING})


def _answers(unknown: list[Any], known: list[str]) -> Iterator[str]:
    for name in unknown:
        close = get_close_matches(str(name).lower(), known, 1)
        guess = f"did you mean {close[0]!r}?" if close else sentence_for([name])
        yield f"RQ_DLQ has no {shown(name)}: " + (guess or f"its names are {', '.join(known)}")
