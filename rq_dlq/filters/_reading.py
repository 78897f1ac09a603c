"""Parses the text of a filter, or reports the position of an error."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import cache
from typing import TYPE_CHECKING, Any, Final, cast

from lark import Lark, UnexpectedCharacters, UnexpectedToken

from rq_dlq.errors import FilterError
from rq_dlq.filters._terms import GrammarRules, MisplacedError, in_single_quotes, whole
from rq_dlq.values.durations import shown

if TYPE_CHECKING:
    from lark import Token

    from rq_dlq.filters._logic import Evaluate
    from rq_dlq.filters._terms import Term
    from rq_dlq.values.wanted import Wanted

MAX_LENGTH: Final = 100_000
"""In characters; enough for some thousand ids."""

GRAMMAR: Final = r"""
?disjunction: conjunction (_OR conjunction)*
?conjunction: inverse (_AND inverse)*
?inverse: NOT inverse                                -> negation
       |  test
?test:    sum
       |  sum SIGN sum                               -> comparison
       |  sum [NOT] _IN "(" item ("," item)* ")"     -> membership
       |  sum [NOT] _BETWEEN sum _AND sum            -> between
       |  sum [NOT] _LIKE TEXT [_ESCAPE TEXT]        -> like
       |  sum _IS [NOT] _NULL                        -> nullness
?sum:     product
       |  product ((PLUS | MINUS) product)+          -> arithmetic
?product: factor
       |  factor ((TIMES | OVER) factor)+            -> arithmetic
?factor:  (PLUS | MINUS) factor                      -> signed
       |  value
?value:   TEXT                                       -> text
       |  number
       |  (TRUE | FALSE)                             -> truth
       |  NAME                                       -> name
       |  QUOTED                                     -> quoted
       |  "(" disjunction ")"                        -> group
?item:    TEXT                                       -> text
       |  number
       |  (PLUS | MINUS) number                      -> signed
number:   NUMBER

TEXT:     /'([^']|'')*'(?!')/
QUOTED:   /"([^"]|"")*"(?!")/
NUMBER:   /([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?/i
NAME:     /([^\W\d]|\$)([\w.$-]*[\w$])?/
SIGN:     /<>|<=|>=|==|!=|<|>|=/
PLUS:     "+"
MINUS:    "-"
TIMES:    "*"
OVER:     "/"

_OR.1:      /or(?![\w.$-])/i
_AND.1:     /and(?![\w.$-])/i
NOT.1:      /not(?![\w.$-])/i
_IN.1:      /in(?![\w.$-])/i
_BETWEEN.1: /between(?![\w.$-])/i
_LIKE.1:    /like(?![\w.$-])/i
_ESCAPE.1:  /escape(?![\w.$-])/i
_IS.1:      /is(?![\w.$-])/i
_NULL.1:    /null(?![\w.$-])/i
TRUE.1:     /true(?![\w.$-])/i
FALSE.1:    /false(?![\w.$-])/i

%ignore /\s+/
"""

# Descriptions of the tokens that may follow. A key of INCLUDED also stands for the tokens in its value.
EXPECTED: Final = {
    "NAME": "a name, text in single quotes or a number",
    "TEXT": "text in single quotes",
    "NUMBER": "a number",
    "SIGN": "a comparison (=, <>, <, IN, LIKE, BETWEEN, IS NULL)",
    "_IN": "IN, LIKE or BETWEEN",
    "_AND": "AND",
    "_OR": "OR",
    "_ESCAPE": "ESCAPE",
    "_NULL": "NULL",
    "NOT": "NOT",
    "LPAR": "an opening parenthesis",
    "COMMA": "a comma",
    "RPAR": "a closing parenthesis",
    "$END": "the end",
}
INCLUDED: Final = {"NAME": {"TEXT", "NUMBER", "LPAR", "NOT"}, "SIGN": {"_IN", "NOT"}, "_IN": {"NOT"}}

# Characters that are not allowed outside quotes, and the advice for each.
SLIPS: Final = {
    "'": "the text has no end: close it with a single quote, and double the quotes within it ('it''s')",
    '"': "the name has no end: close it with a double quote; text goes into single quotes",
    "&": "write AND",
    "|": "write OR",
    "!": "write NOT",
    "`": "put a header's name in double quotes",
    ";": "write one condition, without a semicolon",
    **dict.fromkeys("\u2018\u2019\u201c\u201d", "use straight quotes: '"),
}


def read(text: object) -> tuple[Evaluate, Wanted]:
    """Parse a condition into its evaluator, and the parts of a message that it needs."""
    checked = _check(text)
    try:
        return whole(_parse(checked))
    except MisplacedError as error:
        raise _error(checked, error.at, error.advice) from None


def _parse(text: str) -> Term:
    try:
        return cast("Term", _parser().parse(text))
    except UnexpectedCharacters as error:
        at = cast("int", error.pos_in_stream)
        advice = SLIPS.get(text[at], "this character has no meaning here")
        raise MisplacedError(at, advice) from None
    except UnexpectedToken as error:
        token: Token = error.token
        at = len(text) if token.type == "$END" else token.start_pos or 0
        raise MisplacedError(at, _advice(text[:at], token, error.accepts or ())) from None


@cache
def _parser() -> Lark:
    rules: Any = GrammarRules()  # lark's types require its own Transformer, but only these methods are used
    return Lark(GRAMMAR, start="disjunction", parser="lalr", lexer="basic", transformer=rules)


def _check(text: object) -> str:
    """Check that it is text, not empty, not too long, and without lone surrogates."""
    example = "Write a condition such as tenant = 'a' AND delivery_count > 2"
    if not isinstance(text, str):
        raise FilterError(f"a condition must be text, not of type {type(text).__name__}. {example}")
    if not text.strip():
        raise FilterError(f"the condition is empty. {example}")
    if len(text) > MAX_LENGTH:
        raise FilterError(f"a condition of {len(text):,} characters is too long: the limit is {MAX_LENGTH:,}")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise _error(text, error.start, "this is not a character (a lone surrogate): remove it") from None
    return text


def _error(text: str, at: int, advice: str) -> FilterError:
    line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
    place = f"line {line}, column {column}" if line > 1 else f"column {column}"
    rest = text[at:].partition("\n")[0].strip()
    where = f"{place}, at {shown(rest)}" if rest else f"{place}, at its end"
    return FilterError(f"the condition cannot be read ({where}): {advice}")


def _advice(before: str, token: Token, possible: Collection[str]) -> str:
    """Advice on a common mistake, or otherwise the tokens that may follow."""
    if token.type == "QUOTED" and "TEXT" in possible:
        return f"text goes into single quotes: {in_single_quotes(token[1:-1])}"
    if token.type == "_NULL" and "NAME" in possible:
        return "nothing equals NULL: write IS NULL, or IS NOT NULL"
    if token.type == "NAME" and re.search(r"[0-9.]\Z", before):
        return "a duration goes into single quotes ('1h30m'), and so does other text"
    if token.type == "NAME" and before.endswith("'"):
        return "double a single quote within text: 'it''s'"
    hidden = {name for including, names in INCLUDED.items() if including in possible for name in names}
    phrases = [words for name, words in EXPECTED.items() if name in possible and name not in hidden]
    *others, last = phrases or ["the end"]  # lark names no tokens at the end
    return f"expected {', '.join(others)} or {last}" if others else f"expected {last}"
