"""What is hidden cannot be asked for: a program tries to find a password, letter by letter, at each place."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from rq_dlq.core.redrive.edits import exposes
from rq_dlq.values.masks import Masks
from tests.behaviour.helpers import one
from tests.tables import each_row
from tests.web.conftest import Browser
from tests.web.test_acts import job_of, sent
from tests.web.test_live import stream, told

SECRET = "zqxjzx"  # noqa: S105 - of the tests
LETTERS = "zqxjy"  # none of them is in what is visible of the texts below
NEVER = "~"
WITH = f"password={SECRET}"
HEADERS = {"note": WITH, "name": "token", "value": SECRET, "x-token": SECRET}
BODY = {
    "note": WITH, "n": 1, "pair": ["--password", SECRET], "text": f'{{"password":"{SECRET}"}}',
    "field": {"name": "password", "value": SECRET}, "url": f"redis://anna:{SECRET}@host/0",
}  # fmt: skip
FACTS = (
    "message", "error", "key", "dependency", "note", "value", "JMSXGroupID",
    "body", "body.note", "body.text", "body.field.value", "body.url",
)  # fmt: skip
Ask = Callable[[str], Awaitable[object]]


class BadToken(Exception):  # noqa: N818 - an error that is named after what it rejects
    """An error whose class is a name of what is hidden."""


@pytest.fixture
async def letters(orders: Any) -> Any:
    """Dead letters that have the password in all places that a condition can name."""
    for body, error in ((BODY, ValueError(f"login failed: {WITH}")), (WITH, BadToken(SECRET))):
        await orders.send(body, key=f"tenant {WITH}", dependency=f"base {WITH}", headers=HEADERS)
        await (await one(orders)).nack(error)
    return orders


async def found_by(ask: Ask) -> str:
    """What a program finds that adds the first letter whose answer is not that of a letter of no text."""
    found = ""
    while len(found) < len(SECRET):
        none = await ask(f"{found}{NEVER}")
        for letter in LETTERS:
            if await ask(found + letter) != none:
                found += letter
                break
        else:
            break
    return found


WAYS = {
    "LIKE": lambda guess: " OR ".join(f"{fact} LIKE '%{guess}%'" for fact in FACTS),
    "NOT": lambda guess: " AND ".join(f"({fact} IS NULL OR {fact} NOT LIKE '%{guess}%')" for fact in FACTS),
    "BETWEEN": lambda guess: " OR ".join(
        f"{fact} BETWEEN 'password={guess}' AND 'password={guess}|'" for fact in FACTS
    ),
}
"""Conditions that are true, or not, if a guess is in one of the facts."""


async def test_the_program_finds_what_is_not_hidden(letters: Any) -> None:
    for condition in WAYS.values():
        assert await found_by(lambda guess: letters.dlq.select(condition(guess)).count()) == SECRET  # noqa: B023 - the same


@pytest.mark.parametrize("place", ["purge", "redrive", "edit", "of a group", "tried edit"])
async def test_a_condition_sees_what_is_visible(place: str, pages: Browser, letters: Any) -> None:
    group = (await letters.dlq.groups())[0].fingerprint

    async def ask(where: str) -> object:
        if place == "of a group":
            answer = await pages.get("/act", queue="orders", verb="purge", group=group, where=where)
        elif place == "tried edit":
            answer = await pages.post("/act/edit", {"queue": "orders"}, where=where, edit="{}")
        else:
            answer = await pages.get("/act", queue="orders", verb=place, where=where)
        assert answer.status_code == 200, answer.text
        return re.findall(r'class="big".*?</p>|<li>.*?</li>', answer.text, re.DOTALL)

    for condition in WAYS.values():
        assert await found_by(lambda guess: ask(condition(guess))) == ""  # noqa: B023 - it is awaited here


@pytest.mark.parametrize("verb", ["purge", "redrive", "edit"])
async def test_a_plan_is_carried_out_as_it_was_shown(verb: str, pages: Browser, letters: Any) -> None:
    """The condition is read again, from the form: it is true only of the visible text."""
    where = "message LIKE '%password=***%'"
    assert await letters.dlq.select(where).count() == 0
    form = await pages.get("/act", queue="orders", verb=verb, where=where)
    if verb == "edit":
        form = await pages.post("/act/edit", {"queue": "orders"}, where=where, edit='{"n": 2}')
    assert "<b>1 dead letter</b> will be" in form.text
    answer = await sent(pages, form)
    if verb == "purge":
        assert ">1 removed.<" in answer.text
    else:
        assert (await job_of(letters, answer)).counts.moved == 1
    assert (await letters.stats()).dead == 1


@pytest.mark.usefixtures("letters")
async def test_the_search_and_its_stream_see_what_is_visible(pages: Browser) -> None:
    async def search(guess: str) -> object:
        return (await pages.text("/", q=guess)).count("/group?")

    async def live(guess: str) -> object:
        async with stream(pages, f"page=overview&q={guess}") as events:
            return (await told(events, "Queues with")).count("/group?")

    assert await search("password=") > 0  # type: ignore[operator]
    assert await found_by(search) == ""
    assert await found_by(live) == ""


@each_row("of", ["key", "dependency"])
async def test_a_hidden_key_is_not_confirmed(of: str, pages: Browser, letters: Any) -> None:
    """Not even by the whole of it."""
    await letters.send(BODY, key=f"tenant {WITH}", dependency=f"base {WITH}")
    before = "tenant" if of == "key" else "base"
    answers = []
    for word in (SECRET, "yy"):
        text = f"{before} password={word}"
        asked = [
            await pages.get("/act", queue="orders", verb="pause", of=of, text=text),
            await pages.post("/queue/pause", {"name": "orders"}, of=of, text=text),
            *([await pages.get("/key", queue="orders", key=text)] if of == "key" else []),
        ]
        answers.append([re.findall("<h1>.*?</section>", one.text, re.DOTALL) for one in asked])
        assert {one.status_code for one in asked} == {400}
    assert answers[0] == answers[1]


async def test_counts_are_of_visible_values(pages: Browser, letters: Any) -> None:
    await letters.send(
        {"n": 2}, headers={**HEADERS, "note": "password=another"}, key="tenant password=another"
    )
    await (await one(letters)).nack(ValueError("no"))
    for name in ("note", "value", "x-token", "key", "dependency"):
        text = await pages.text("/queue", name="orders", count_by=name, place="dead")
        (table,) = re.findall(r"<h2>Count by a header.*?<table>(.*?)</table>", text, re.DOTALL)
        assert SECRET not in text
        assert len([row for row in re.findall("<tr>.*?</tr>", table, re.DOTALL) if "***" in row]) == 1, name


@each_row(
    ("before", "after", "exposed"),
    [
        ({"name": "password", "value": "x"}, {"name": "nick", "value": "x"}, True),
        ({"name": "password", "value": {"a": "x"}}, {"name": "nick", "value": {"a": "x", "b": 1}}, True),
        ({"name": "password", "value": "x"}, {"name": "nick", "value": "y"}, False),
        ({"name": "password", "value": "x"}, {"name": "password", "value": "x", "a": 1}, False),
        (["--password", "x"], ["--user", "x"], True),
        (["--password", 5], ["--user", 5, 6], True),
        ([["password", "x"]], [["user", "x"]], True),
        ([["password", "x"]], [["password", "x"], ["a", "b"]], False),
        ({"password": "x", "a": 1}, {"a": 1}, False),
        ({"a": "password=x"}, {"a": "password=x"}, False),
        ({"a": [1]}, {"a": {}}, False),
        ("password=x", "y", False),
    ],
)
def test_an_edit_that_would_show_a_hidden_value(before: Any, after: Any, *, exposed: bool) -> None:
    assert exposes(before, after, Masks()) is exposed


async def test_an_edit_cannot_show_a_hidden_value(pages: Browser, letters: Any) -> None:
    """A patch that renames what is beside it, of several messages, and the body of one."""
    patch = '{"field": {"name": "nick"}}'
    tried = await pages.post("/act/edit", {"queue": "orders"}, where="body.n = 1", edit=patch)
    assert "would be visible" in tried.text
    assert "0 dead letters" in tried.text
    (letter,) = await letters.dlq.browse(where="body.n = 1")
    form = await pages.get("/act", queue="orders", verb="edit", id=letter.id)
    body = re.findall(r"<textarea[^>]*>(.*?)</textarea>", form.text, re.DOTALL)[0].replace("&#34;", '"')
    edited = body.replace('"name": "password"', '"name": "nick"')
    assert edited != body
    tried = await pages.post("/act/edit", {"queue": "orders"}, id=letter.id, edit=edited)
    assert "would be visible" in tried.text
    assert SECRET not in tried.text
