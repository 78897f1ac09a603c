"""Secrets are hidden."""

from __future__ import annotations

import time

import pytest

from rq_dlq.values.masks import MOST, Masks


def test_fields_by_their_names() -> None:
    body = {"user": "anna", "Password": "x", "nested": [{"X-API-Key": "y", "apiKey": "z"}], "iban": "DE1"}
    assert Masks(["iban"]).value(body) == {
        "user": "anna",
        "Password": "***",
        "nested": [{"X-API-Key": "***", "apiKey": "***"}],
        "iban": "***",
    }


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("login failed: password=hunter2, user=anna", "login failed: password=***, user=anna"),
        ("{'password': 'hunter 2', 'a': 1}", "{'password': ***, 'a': 1}"),
        ('{"access_token": "abc"}', '{"access_token": ***}'),
        ("Authorization: Bearer abc.def", "Authorization: ***"),
        ("redis://anna:hunter2@host:6379/0", "redis://***@host:6379/0"),
        ("a secret is nothing without its value", "a secret is nothing without its value"),
    ],
)
def test_texts(text: str, masked: str) -> None:
    assert Masks().text(text) == masked


def test_long_texts_are_cut_and_take_no_time() -> None:
    began = time.perf_counter()
    for text in ("a" * 3_000_000, "password" * 300_000, "token:\"'" * 300_000, "x://" * 500_000):
        assert len(Masks().text(text)) < 3 * MOST
    assert time.perf_counter() - began < 10
