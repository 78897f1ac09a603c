"""The texts of the product, in Python and Lua, are plain English: none has a phrase from this list.

The phrases stand for a noun of the trade (message, caller, outcome, limit), or are not idiomatic.
"""

from __future__ import annotations

import re

from tests.changes import code_in
from tests.checkout import ROOT
from tests.house import is_generated
from tests.tables import each_row

SAY_INSTEAD = {
    r"bec(?:omes?|ame) of (?:it|them|the|an?|each|messages|what)": "the outcome of, what happens to",
    r"what bec(?:omes|ame) of": "the outcome of",
    r"what went wrong": "the error, the cause",
    r"who does it": "the operator",
    r"nobody(?! asked\")|whoever": "no consumer, the caller; or the passive",
    r"(?<!\")(?:somebody|someone)": "another consumer, an operator, another program; or the passive",
    r"who (?:waits|is next)": "a blocked message, a waiting client, the next message",
    r"in work": "being processed, leased",
    r"(?:is|are|was|were) to be": "must be, will be",
    r"makes? no sense": "is not valid",
    r"(?:is|are) not known": "unknown",
    r"none: none[.;,)]": "no delay, no limit, no key",
    r"for (?:good|ever|life)": "permanently, forever",
    r"again and again|now and then": "repeatedly, periodically",
    r"by hand|by themselves": "manually, automatically",
    r"(?:lease|ttl|time to live|redrive|job) (?:is|was) over": "has expired, has ended",
    r"go(?:es)? on with": "continue",
    r"brings? (?:it|them) back|bring back": "redrive, redeliver, move back",
    r"side by side|one after the other": "concurrently, one after another",
    r"how far (?:it|they|the call|a call) (?:is|are|came)": "the progress",
}
"""By a pattern: the words to use."""
PHRASES = [(re.compile(rf"\b(?:{phrase})(?!\w)"), words) for phrase, words in SAY_INSTEAD.items()]


def found_in(text: str) -> list[str]:
    """The phrases of the list in a text, also across line breaks, each with the words to use."""
    text = re.sub(r"\s*\n\s*(?:# |-- )?", " ", text).lower()
    return [f"{hit[0]!r}: write {words}" for phrase, words in PHRASES for hit in phrase.finditer(text)]


@each_row(
    "text, hits",
    [
        ("What became of each message.", 2),
        ("The lease\n    # is over.", 1),
        ("-- lets in who\n-- waits", 1),
        ("None: none. Again and again.", 2),
        ("{None: none}", 0),
        ("The outcome of each message; its lease has expired.", 0),
    ],
)
def test_a_phrase_is_found(text: str, hits: int) -> None:
    assert len(found_in(text)) == hits


def test_the_product_has_none_of_them() -> None:
    texts = {path: text for path, text in code_in(ROOT).items() if not is_generated(text)}
    assert [f"{path}: {hit}" for path, text in texts.items() for hit in found_in(text)] == []
