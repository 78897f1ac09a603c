"""Converts the rules of the grammar to terms, and checks a filter once, before its use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

from rq_dlq.filters import _facts, _logic
from rq_dlq.values.durations import shown
from rq_dlq.values.wanted import NOTHING, RECORD, Wanted, together

if TYPE_CHECKING:
    from lark import Token

    from rq_dlq.filters._logic import Evaluate

MAX_DEPTH: Final = 100
MAX_SHOWN: Final = 30  # how many characters of text an error shows


class MisplacedError(Exception):
    """A part of the text is wrong.

    Args:
        at: where it begins, in characters from 0.
        advice: the problem, and what to do.
    """

    def __init__(self, at: int, advice: str) -> None:
        super().__init__(at, advice)
        self.at = at
        self.advice = advice


@dataclass(frozen=True, slots=True)
class Term:
    """A part of an expression.

    Attributes:
        evaluate: computes its value for a message.
        at: where it begins, in characters from 0.
        kind: the type of its value; a name may have any.
        depth: the nesting depth of the terms within it.
        value: the value of a literal.
        span: it is in seconds, so text compared with it is a duration.
        quoted: it is a name in double quotes.
        needs: the parts of a message that it is computed from.
    """

    evaluate: Evaluate
    at: int
    kind: Literal["name", "text", "number", "condition"]
    depth: int = 1
    value: object = None
    span: bool = False
    quoted: bool = False
    needs: Wanted = NOTHING


class GrammarRules:
    """The methods that lark calls: one for each rule and alias of the grammar, with the matched parts."""

    def disjunction(self, terms: list[Term]) -> Term:
        """One or more OR."""
        return _condition(_logic.joined([_truth(term) for term in terms], by=True), *terms)

    def conjunction(self, terms: list[Term]) -> Term:
        """One or more AND."""
        return _condition(_logic.joined([_truth(term) for term in terms], by=False), *terms)

    def negation(self, found: tuple[Token, Term]) -> Term:
        """NOT in front of a condition."""
        sign, term = found
        return replace(_condition(_logic.negation(_truth(term)), term), at=_start(sign))

    def comparison(self, found: tuple[Term, Token, Term]) -> Term:
        """Two values and a comparison sign."""
        left, sign, right = found
        _check_quotes(left, right)
        one, other = _aligned(left, right)
        return _condition(_logic.comparison(sign, one, other), left, right)

    def between(self, found: tuple[Term, Token | None, Term, Term]) -> Term:
        """BETWEEN, optionally with NOT."""
        term, inverted, low, high = found
        _check_quotes(term, low, high)
        return _perhaps_not(inverted, _logic.between(*_aligned(term, low, high)), term, low, high)

    def membership(self, found: tuple[Term, Token | None, Term]) -> Term:
        """IN, optionally with NOT."""
        term, inverted, *choices = found
        values = [_duration(choice) if term.span else choice.value for choice in choices]
        return _perhaps_not(inverted, _logic.membership(term.evaluate, values), term)

    def like(self, found: tuple[Term, Token | None, Token, Token | None]) -> Term:
        """LIKE, optionally with NOT and ESCAPE."""
        term, inverted, pattern, escape = found
        sign = None if escape is None else _unquoted(escape)
        if escape is not None and len(sign or "") != 1:
            raise MisplacedError(_start(escape), "ESCAPE takes one character: ESCAPE '!'")
        try:
            matches = _logic.like(term.evaluate, _unquoted(pattern), sign)
        except ValueError:
            advice = f"the pattern ends with its escape character: double it ({sign}{sign}), or remove it"
            raise MisplacedError(_start(pattern), advice) from None
        return _perhaps_not(inverted, matches, term)

    def nullness(self, found: tuple[Term, Token | None]) -> Term:
        """IS NULL, optionally with NOT."""
        term, inverted = found
        return _perhaps_not(inverted, _logic.is_null(term.evaluate), term)

    def arithmetic(self, found: list[Term | Token]) -> Term:
        """A chain of terms with signs between them."""
        terms = [part for part in found if isinstance(part, Term)]
        signs = [str(part) for part in found if not isinstance(part, Term)]
        first, *rest = _aligned(*terms)
        spans = _any_span(terms)
        for term in terms:
            _check_number(term, spans=spans)
        return _number(_logic.arithmetic(first, list(zip(signs, rest, strict=True))), *terms)

    def signed(self, found: tuple[Token, Term]) -> Term:
        """A value with a sign in front."""
        sign, term = found
        _check_number(term, spans=False)
        signed = _logic.arithmetic(lambda _: 0, [(str(sign), term.evaluate)])
        value = _logic.number(term.value) if term.kind != "name" else None
        value = -value if value is not None and sign == "-" else value
        return replace(_number(signed, term), at=_start(sign), value=value)

    def group(self, found: tuple[Term]) -> Term:
        """Parentheses. A quoted name within them is a name, not text."""
        return replace(found[0], quoted=False)

    def text(self, found: tuple[Token]) -> Term:
        """Text in single quotes."""
        value = _unquoted(found[0])
        return Term(lambda _: value, _start(found[0]), "text", value=value)

    def number(self, found: tuple[Token]) -> Term:
        """A number without a sign."""
        value = _logic.number(str(found[0]))
        if value is None:
            raise MisplacedError(_start(found[0]), "this number is too large: use one below 1e308")
        return Term(lambda _: value, _start(found[0]), "number", value=value)

    def truth(self, found: tuple[Token]) -> Term:
        """TRUE or FALSE."""
        value = found[0].type == "TRUE"
        return Term(lambda _: value, _start(found[0]), "condition", value=value)

    def name(self, found: tuple[Token]) -> Term:
        """A field, a part of the body or a header."""
        name = str(found[0])
        field, minus, rest = name.partition("-")
        if minus and _facts.is_field(field) and _logic.number(rest) is not None:
            advice = f'this is one name: write {field} - {rest} to subtract, or "{name}" for the header'
            raise MisplacedError(_start(found[0]), advice)
        if advice := _facts.refusal(name):
            raise MisplacedError(_start(found[0]), advice)
        span, needs = name in _facts.SPANS, _facts.needs(name)
        return Term(_facts.lookup(name), _start(found[0]), "name", span=span, needs=needs)

    def quoted(self, found: tuple[Token]) -> Term:
        """A header of any name."""
        name = _unquoted(found[0])
        return Term(_facts.header(name), _start(found[0]), "name", value=name, quoted=True, needs=RECORD)


def whole(term: Term) -> tuple[Evaluate, Wanted]:
    """The filter for this term, which must be a condition, and the parts of a message that it needs."""
    return _logic.joined([_truth(term)], by=False), term.needs


def in_single_quotes(text: str) -> str:
    """Text as a literal, if it is short; otherwise an example."""
    short = len(text) <= MAX_SHOWN and text.isprintable()
    return "'{}'".format(text.replace("'", "''") if short else "a")


def _any_span(terms: Sequence[Term]) -> bool:
    """Whether any term is in seconds, so that text is read as a duration."""
    return any(term.span for term in terms)


def _start(token: Token) -> int:
    return token.start_pos or 0


def _unquoted(token: Token) -> str:
    quote = token[0]
    return token[1:-1].replace(quote * 2, quote)


def _depth(terms: Sequence[Term]) -> int:
    """The depth of a term with these parts, which is the depth of recursion in its evaluation."""
    depth = 1 + max(term.depth for term in terms)
    if depth > MAX_DEPTH:
        advice = (
            f"it is nested deeper than {MAX_DEPTH} levels: remove parentheses, which a chain of AND or OR "
            "does not need"
        )
        raise MisplacedError(terms[0].at, advice)
    return depth


def _condition(evaluate: Evaluate, *terms: Term) -> Term:
    return Term(
        evaluate, terms[0].at, "condition", _depth(terms), needs=together(term.needs for term in terms)
    )


def _number(evaluate: Evaluate, *terms: Term) -> Term:
    span, needs = _any_span(terms), together(term.needs for term in terms)
    return Term(evaluate, terms[0].at, "number", _depth(terms), span=span, needs=needs)


def _perhaps_not(inverted: Token | None, evaluate: Evaluate, *terms: Term) -> Term:
    return _condition(_logic.negation(evaluate) if inverted else evaluate, *terms)


def _truth(term: Term) -> Evaluate:
    if term.kind in {"text", "number"}:
        advice = (
            f"{_described(term)} is neither true nor false: compare it with something, "
            "or write name IN ('a', 'b') to allow for several values"
        )
        raise MisplacedError(term.at, advice)
    return term.evaluate


def _check_number(term: Term, *, spans: bool) -> None:
    readable = spans or _logic.number(term.value) is not None
    if term.kind == "condition" or (term.kind == "text" and not readable):
        raise MisplacedError(term.at, f"{_described(term)} is not a number")


def _described(term: Term) -> str:
    return "this text" if term.kind == "text" else f"a {term.kind}"


def _check_quotes(left: Term, *others: Term) -> None:
    """Refuse `tenant = "a"`, which is nearly always a mistake and would silently select nothing."""
    for term in others:
        if term.quoted and left.kind == "name":
            text = in_single_quotes(str(term.value))
            advice = (
                f"double quotes name a header: put text in single quotes ({text}), a header in parentheses"
            )
            raise MisplacedError(term.at, advice)


def _aligned(*terms: Term) -> list[Evaluate]:
    """The evaluators of the terms. If one is in seconds, text in the others is read as a duration."""
    if not _any_span(terms):
        return [term.evaluate for term in terms]
    for term in terms:
        _duration(term)
    return [term.evaluate if term.span else _logic.as_seconds(term.evaluate) for term in terms]


def _duration(term: Term) -> object:
    """The value of a literal that is compared with a term in seconds."""
    value = _logic.seconds(term.value)
    if term.kind == "text" and value is None:
        advice = (
            f"{shown(term.value)} is not a duration up to ten years: write '1m30s', '500ms', '2h' or '1d'"
        )
        raise MisplacedError(term.at, advice)
    return value
