"""The setting RQ_DLQ, and the app that reads it."""

from __future__ import annotations

from typing import Any

import pytest
from django.apps import apps
from django.core.checks import run_checks
from django.core.management import call_command
from django.test import override_settings

import rq_dlq.django
from rq_dlq import ConfigurationError
from rq_dlq.django.setting import of_broker
from tests.tables import each_row

WRONG = {
    "another case": ({"URL": "redis://x"}, "RQ_DLQ has no 'URL': did you mean 'url'?"),
    "a slip": ({"namespaces": "x"}, "RQ_DLQ has no 'namespaces': did you mean 'namespace'?"),
    "a name of nothing": ({"zzz": 1}, "RQ_DLQ has no 'zzz': its names are confirm_within, durability, "),
    "two": ({"URL": "x", "durable": True}, "'url'?; RQ_DLQ has no 'durable': did you mean 'durability'?"),
    "no dict": (
        "redis://x",
        'RQ_DLQ is \'redis://x\': set it to a dict, as in RQ_DLQ = {"url": "redis://…"}',
    ),
    "a value": ({"durability": "very"}, "durability 'very': choose from"),
}


@each_row("what", WRONG)
def test_what_is_wrong_is_answered(what: str) -> None:
    given, answer = WRONG[what]
    with override_settings(RQ_DLQ=given):
        with pytest.raises(ConfigurationError) as raised:
            of_broker()
        assert answer in str(raised.value)
        (found,) = [one for one in run_checks() if one.id == "rq_dlq.E001"]
        assert answer in found.msg


@pytest.fixture
def _unmade() -> Any:
    app = apps.get_app_config("rq_dlq")
    app.__dict__.pop("broker", None)
    yield
    app.__dict__.pop("broker", None)


@pytest.mark.usefixtures("_unmade")
def test_the_broker_has_the_settings() -> None:
    with override_settings(RQ_DLQ={"url": "redis://there:1", "namespace": "mine", "using": "default"}):
        broker = rq_dlq.django.broker
    assert (broker.url, broker.settings.namespace) == ("redis://there:1", "mine")
    assert rq_dlq.django.broker is broker


@pytest.mark.usefixtures("_unmade")
def test_without_the_setting_it_is_as_any_other() -> None:
    with override_settings():
        from django.conf import settings  # noqa: PLC0415

        del settings.RQ_DLQ
        assert of_broker().namespace == "rq"


def test_the_migrations_are_those_of_the_models() -> None:
    call_command("makemigrations", "rq_dlq", check=True, dry_run=True, verbosity=0)


def test_no_other_name() -> None:
    with pytest.raises(AttributeError, match="no attribute 'brokers'"):
        _ = rq_dlq.django.brokers
