"""The words of replies: the same in Lua and in their reader, and none is taken for another."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

import pytest

import rq_dlq
from rq_dlq import BrokerRefused, core
from rq_dlq._scripts.joining import MODULES, join, parts_of
from rq_dlq.core.steps.call import WrongReply
from rq_dlq.core.steps.replies import ERRORS, OneOf, UnknownWord, Word, one_of
from rq_dlq.errors import RqDlqError
from tests.behaviour.faults import change_talk
from tests.joined_lua import texts
from tests.model.world import World
from tests.tables import each_row
from tests.verbs import VERBS

TEXTS = texts()


def declared(text: str) -> dict[str, str]:
    """The words that the Lua declares, by their names."""
    return dict(re.findall(r"^Reply\.(\w+) = '([a-z_]+)'", text, re.MULTILINE))


def said(modules: Mapping[str, str]) -> set[str]:
    """The names of the words with which the Lua replies."""
    code = (re.sub(r"--.*", "", text) for name, text in modules.items() if name != "reply")
    return {name for text in code for name in re.findall(r"\bReply\.(\w+)", text)}


@cache
def sources() -> dict[str, str]:
    """The Python modules of the package, by their names."""
    root = Path(rq_dlq.__file__).parent
    return {str(file.relative_to(root)): file.read_text(encoding="utf-8") for file in root.rglob("*.py")}


def read_in(texts: Mapping[str, str]) -> set[str]:
    """The names of the words that the readers know."""
    readers = (text for name, text in texts.items() if name != "core/steps/replies.py")
    return {name for text in readers for name in re.findall(r"\bWord\.(\w+)", text)}


def differences(modules: Mapping[str, str], readers: Mapping[str, str]) -> dict[str, set[str]]:
    """What one side has and another lacks."""
    lua, python = declared(modules["reply"]), {word.name: word.value for word in Word}
    return {
        "another text": {name for name in lua.keys() & python.keys() if lua[name] != python[name]},
        "not in Python": lua.keys() - python.keys(),
        "not in Lua": python.keys() - lua.keys(),
        "not declared": said(modules) - lua.keys(),
        "never said": lua.keys() - said(modules),
        "never read": lua.keys() - read_in(readers),
    }


def test_both_sides_have_the_same_words() -> None:
    assert len({*declared(TEXTS["reply"]).values()}) == len(Word)
    assert not any(differences(TEXTS, sources()).values()), differences(TEXTS, sources())


@each_row(
    "old, new, what",
    [
        ("Reply.FULL = 'full'", "Reply.FULL = 'fulll'", "another text"),
        ("Reply.FULL = 'full'\n", "Reply.FULL = 'full'\nReply.NEW = 'new'\n", "not in Python"),
        ("Reply.FULL = 'full'", "Reply.FUL = 'full'", "not in Lua"),
        ("Reply.FULL = 'full'", "Reply.FUL = 'full'", "not declared"),
    ],
)
def test_a_word_that_only_one_side_has_is_found(old: str, new: str, what: str) -> None:
    reply = re.sub(r" +--.*", "", TEXTS["reply"])
    assert old in reply
    assert differences({**TEXTS, "reply": reply.replace(old, new)}, sources())[what]


def test_a_word_that_nobody_says_or_reads_is_found() -> None:
    mute = {name: text.replace("Reply.FULL", "Reply.DONE") for name, text in TEXTS.items() if name != "reply"}
    assert differences({**TEXTS, **mute}, sources())["never said"] == {"FULL"}
    deaf = {name: text.replace("Word.FULL", "Word.DONE") for name, text in sources().items()}
    assert differences(TEXTS, deaf)["never read"] == {"FULL"}


def test_a_word_that_is_misspelt_is_not_joined() -> None:
    with pytest.raises(ValueError, match=r"Reply\.FUL is not defined"):
        join({**TEXTS, "groups": TEXTS["groups"].replace("Reply.FULL", "Reply.FUL")})


# Readers

MODULES_OF_CALLS = [
    import_module(module.name)
    for module in walk_packages(core.__path__, f"{core.__name__}.")
    if module.name.endswith(".calls")
]
CONSTRUCTORS = {
    name: module
    for module in MODULES_OF_CALLS
    for name, function in inspect.getmembers(module, inspect.isfunction)
    if name in VERBS and function.__module__ == module.__name__
}
SAID = {
    part.name.removeprefix("Verbs."): said({part.name: part.text})
    for module in MODULES
    for part in parts_of(module, TEXTS[module])
    if part.name.startswith("Verbs.")
}


@each_row("verb", CONSTRUCTORS)
def test_the_module_of_a_reader_knows_each_word_that_its_verb_says_itself(verb: str) -> None:
    known = {*re.findall(r"\bWord\.(\w+)", inspect.getsource(CONSTRUCTORS[verb]))}
    assert SAID[verb] <= known, f"{verb} says {SAID[verb] - known}"


@pytest.mark.parametrize("backend", ["real"], indirect=True)
def test_no_reader_takes_an_unknown_word_for_success(raw: Any) -> None:
    """Nor any other word that its verb does not have."""
    world = World(raw)
    for verb in VERBS.values():
        call = verb.call(world)
        new = b"of_a_later_version"
        for reply in (new, [new], [new] * 2) if SAID.get(verb.name) else (new,):
            with pytest.raises(WrongReply):
                call.read(reply, repeated=False)
        if isinstance(call.reader, OneOf):
            for word in Word:
                if word.encode() not in call.reader:
                    with pytest.raises(UnknownWord, match=word):
                        call.read(word.encode(), repeated=True)


def test_a_word_is_true_only_if_it_was_done() -> None:
    assert [word for word in Word if word] == [Word.DONE]
    assert not {*ERRORS} & {Word.DONE, Word.DONE_BEFORE, Word.SETTLED}
    assert all(issubclass(error, RqDlqError) for error in ERRORS.values())


@each_row("reply", [b"Done", b"", b"7", b"done ", 1, None, [b"done"], {}])
def test_what_is_no_word_is_the_reply_of_another_call(reply: Any) -> None:
    with pytest.raises((WrongReply, TypeError)) as caught:
        one_of(Word.DONE)(reply)
    assert not isinstance(caught.value, UnknownWord)


@pytest.mark.parametrize("backend", ["real"], indirect=True)
async def test_a_caller_is_told_of_a_word_that_this_version_does_not_know(broker: Any) -> None:
    """An old process that has read the Lua of a package which was replaced while it ran."""
    queue = broker.queue("a")
    await queue.send(1)

    def later(replies: list[Any]) -> list[Any]:
        return [b"of_a_later_version" if reply in [b"done", b"unchanged"] else reply for reply in replies]

    await change_talk(broker, lambda commands: commands, later)
    with pytest.raises(BrokerRefused, match="'of_a_later_version', which this process cannot read") as caught:
        await queue.pause()
    assert caught.value.indeterminate
