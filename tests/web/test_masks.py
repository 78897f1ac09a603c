"""Secrets are hidden."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from rq_dlq.values.masks import MOST, Masks
from tests.tables import each_row

HARD = (
    "token=" * 300_000, "token " * 300_000, "token=[" * 300_000, "a\\" * 500_000, "\\" * 1_000_000,
    "token=" + "\\" * 1_000_000, 'token="' + '\\"' * 500_000, "cookie:\r" * 300_000, "'cookie:" * 300_000,
    "token" + " " * 1_000_000, "x://" + "@" * 1_000_000, "token=\n-----BEGIN-----" * 100_000,
    '["token",' * 300_000, "<token>" * 300_000, "<token>x</" * 300_000, "<" * 1_000_000, "<a " * 300_000,
    "--token " * 300_000, "--" * 500_000, "name=token,value=" * 100_000, "name=" * 300_000,
    "token," * 300_000, "[" + " " * 1_000_000 + '"token",', "<token>" + "</" * 500_000, "<a:" * 300_000,
    "{" * 1_000_000, '{"a":' * 300_000, "'authorization:\\" * 300_000, 'token=(\\\\"' * 300_000,
)  # fmt: skip
"""Texts that would take long, were something in them read again and again."""


def test_fields_by_their_names() -> None:
    body = {"user": "anna", "Password": "x", "nested": [{"X-API-Key": "y", "apiKey": "z"}], "iban": "DE1"}
    assert Masks(["iban"]).value(body) == {
        "user": "anna",
        "Password": "***",
        "nested": [{"X-API-Key": "***", "apiKey": "***"}],
        "iban": "***",
    }


@each_row(
    ("text", "masked"),
    [
        ("login failed: password=hunter2, user=anna", "login failed: password=***, user=anna"),
        ("{'password': 'hunter 2', 'a': 1}", "{'password': ***, 'a': 1}"),
        ('{"access_token": "abc"}', '{"access_token": ***}'),
        ("Authorization: Bearer abc.def", "Authorization: ***"),
        ("redis://anna:hunter2@host:6379/0", "redis://***@host:6379/0"),
        ("a secret is nothing without its value", "a secret is nothing without its value"),
        # quotes: escaped ones, those of a text in a text, and those that were cut off
        (r'bad body {"password": "ab\"LEAK", "a": 1}', 'bad body {"password": ***, "a": 1}'),
        (r'"{\"password\": \"ab\\\"LEAK\", \"a\": 1}"', r'"{\"password\": ***, \"a\": 1}"'),
        (r"repr '{\"password\": \"ab\\\\\"LEAK\"}'", r"repr '{\"password\": ***}'"),
        ('it was password="LEAK LEAK, LEAK', "it was password=***"),
        ("token=b'LEAK LEAK', secret=Secret('LEAK')", "token=***, secret=***)"),
        # headers go on to the end of the line, or of the quote that they are in
        ("Authorization: Token ghp_LEAK\nHost: shop", "Authorization: ***\nHost: shop"),
        ('Authorization: Digest username="anna", response="LEAK"', "Authorization: ***"),
        ("Cookie: a=b; session=LEAK\r\nHost: shop", "Cookie: ***\r\nHost: shop"),
        ("curl -H 'Cookie: a=b; c=LEAK' https://shop", "curl -H 'Cookie: ***' https://shop"),
        ('["X-Authorization: Token LEAK", "Host: shop"]', '["X-Authorization: ***", "Host: shop"]'),
        ("'Authorization: Token LEAK", "'Authorization: ***"),
        ('{"Authorization": "Token LEAK", "user": "anna"}', '{"Authorization": ***, "user": "anna"}'),
        ('{"cookie": null, "user": "anna"}', '{"cookie": ***, "user": "anna"}'),
        # what is between the field and its value, and values in brackets
        ('{"api key"   :      "LEAK"}', '{"api key"   :      ***}'),
        ('{:password=>"LEAK LEAK"}', "{:password=>***}"),
        ("environ['TOKEN'] = 'LEAK LEAK'", "environ['TOKEN'] = ***"),
        ("{'tokens': ['LEAK)', ('LEAK', 1)], 'a': 1}", "{'tokens': ***, 'a': 1}"),
        ("secret: {'a': 'LEAK", "secret: ***"),
        ("private_key=-----BEGIN RSA KEY-----\nLE\nAK\n-----END RSA KEY-----, a=1", "private_key=***, a=1"),
        ("pwd=LEAK, passphrase: LEAK", "pwd=***, passphrase: ***"),
        # pairs, and fields that say which field they are
        ("headers: [('password', 'LEAK LEAK'), ('a', 'b')]", "headers: [('password', ***), ('a', 'b')]"),
        ('bad [["password", "LEAK"], ["a", 1]]', 'bad [["password", ***], ["a", 1]]'),
        (r'"[[\"password\", \"LEAK\"]]"', r'"[[\"password\", ***]]"'),
        (
            "the token, the secret, 'password', all",
            "the token, the secret, 'password', all",
        ),
        ("{'name': 'password', 'value': 'LEAK', 'a': 1}", "{'name': 'password', 'value': ***, 'a': 1}"),
        ("{'name': 'user', 'value': 'anna'}", "{'name': 'user', 'value': 'anna'}"),
        ("name='password' value='LEAK' name='a' value='b'", "name='password' value=*** name='a' value='b'"),
        ('<param name="password" value="LEAK"/>', '<param name="password" value=***/>'),
        # elements of XML
        ("<a><password>LEAK LEAK</password></a>", "<a><password>***</password></a>"),
        ('<ns:Password type="text">LEAK</ns:Password>', '<ns:Password type="text">***</ns:Password>'),
        ("<token><![CDATA[LEAK]]></token><b>1</b>", "<token>***</token><b>1</b>"),
        ("<token><value>LEAK</value></token>", "<token>***</value></token>"),
        ("<password/><password></password> a<b", "<password/><password></password> a<b"),
        ("use <user>:<password> for it", "use <user>:<password> for it"),
        # command lines
        ("mysql --user anna --password LEAK --host a", "mysql --user anna --password *** --host a"),
        ("mysql --password=LEAK --host a", "mysql --password=*** --host a"),
        ("run --api-key 'LEAK LEAK' -p 80", "run --api-key *** -p 80"),
        ("run --token --verbose yes", "run --token --verbose yes"),
        ("--token is required", "--token is required"),
        ("--token is-LEAK --host a", "--token *** --host a"),
        # URLs: to the last @ before the path
        ("postgres://user:p@LEAK@host/db", "postgres://***@host/db"),
        ("http://shop/a@b and http://shop.example", "http://shop/a@b and http://shop.example"),
    ],
)
def test_texts(text: str, masked: str) -> None:
    assert Masks().text(text) == masked


@each_row(
    ("value", "masked"),
    [
        ([["password", "x"], ["user", "anna"]], [["password", "***"], ["user", "anna"]]),
        ([["password", ["x"]], ["a", "password"]], [["password", "***"], ["a", "password"]]),
        (["the password was wrong", "anna"], ["the password was wrong", "anna"]),
        (["password", "x", "y"], ["password", "x", "y"]),
        (["mysql", "--password", "x", "--host", "y"], ["mysql", "--password", "***", "--host", "y"]),
        (["mysql", "--password=x"], ["mysql", "--password=***"]),
        ({"name": "password", "value": "x"}, {"name": "password", "value": "***"}),
        ([{"Value": ["x"], "Key": "api_key", "a": 1}], [{"Value": "***", "Key": "api_key", "a": 1}]),
        ({"name": "user", "value": "anna"}, {"name": "user", "value": "anna"}),
        ({"name": 1, "value": "x"}, {"name": 1, "value": "x"}),
        ({"xml": "<a><password>x</password></a>"}, {"xml": "<a><password>***</password></a>"}),
    ],
)
def test_values_beside_their_names(value: Any, masked: Any) -> None:
    assert Masks().value(value) == masked


def test_texts_that_are_json() -> None:
    """Fields in a text that is JSON are hidden, however many texts it is in; other texts stay as they are."""
    for inner in ({"password": "LEAK"}, {"password": ['ab"LEAK']}, [{"card token": {"a": "LEAK"}}]):
        body: Any = {"a": inner, "b": "http://shop,anna@example"}
        for _ in range(9):
            body = {"text": json.dumps(body), "token": "LEAK", "c": [1.0, None]}
            shown = json.dumps(Masks().value(body))
            assert "LEAK" not in shown
            assert "***" in shown
    assert Masks().value([json.dumps({"password": "x", "a": "ä"})]) == ['{"password":"***","a":"ä"}']
    for text in (' { "a" : [1.0, "\\u00e4"] }', '{"a":"http://x","b":"c@d"}', "[", "{1}", "[" * 2_000, "[]"):
        assert Masks().value(text) == text


def test_a_name_as_it_is_spelled_elsewhere() -> None:
    assert Masks(["credit/card"]).text("credit/card: 4711, card: 1") == "credit/card: ***, card: 1"


@pytest.mark.slow  # a figure, of ten long bodies
def test_a_text_without_fields_takes_no_longer_for_its_words() -> None:
    """Of a body like the first, each word was looked at anew for each of its letters."""
    took: dict[str, list[float]] = {"token": [], "tokem": []}
    for word, times in [*took.items()] * 5:
        body = [word * 19_000] * 10
        began = time.thread_time()
        assert Masks().value(body) == body
        times.append(time.thread_time() - began)
    assert min(took["token"]) < 3 * min(took["tokem"])  # it was four times as long


def test_long_texts_are_cut_and_take_no_time() -> None:
    began = time.thread_time()
    for text in ("a" * 3_000_000, "password" * 300_000, "token:\"'" * 300_000, "x://" * 500_000, *HARD):
        assert len(Masks().text(text)) < 3 * MOST
    assert time.thread_time() - began < 10
