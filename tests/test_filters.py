"""Filters: what they choose, and what they say to nonsense. Tables are data: add a row."""

from __future__ import annotations

import copy
import pickle
import re
import subprocess
import sys
from dataclasses import FrozenInstanceError
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rq_dlq.errors import FilterError, InvalidInput
from rq_dlq.filters import Filter
from rq_dlq.filters._facts import FIELDS as FACTS
from rq_dlq.filters._facts import MessageFacts
from rq_dlq.values import record as records
from rq_dlq.values.codec import Codec
from rq_dlq.values.failure import Cause
from rq_dlq.values.masks import Masks
from rq_dlq.values.message import DeadLetter, MessageRow, Received
from rq_dlq.values.wanted import Wanted
from tests.call_counts import growth
from tests.tables import each_row

NOW = 1_790_000_000_000
HOUR = 3_600_000
CODEC: Codec[Any] = Codec(Any, 1 << 20)
HEADERS = {
    "tenant": "a",
    "x-trace.id": "t-1",
    "größe": "1,5",
    "count": "10",
    "price": "19.90",
    "negative": "-3",
    "patience": "90m",
    "urgent": "True",
    "empty": "",
    "priority": "a header",
    "body": "another header",
    "two words": "yes",
    'a"b': "quoted",
    "path": "a\\b%c_d",
    "lines": "one\ntwo",
    "quote": "it's",
    "AND": "reserved",
    "long": "12345678901234567891",
    "digits": "9" * 400,
}
BODY = {
    "order": {"id": 7, "sku": "B-1", "paid": True, "note": None, "lines": [1, 2]},
    "total": 12.5,
    "code": "0012",
    "big": 10**18,
}


def record(body: Any = BODY, headers: dict[str, str] | None = None, priority: int = 7) -> bytes:
    birth = (NOW - 2 * HOUR) << 12
    return birth.to_bytes(7, "big") + CODEC.packer(priority, HEADERS if headers is None else headers)(body)


def history(cause: Cause) -> bytes:
    return f'nacked\t{NOW - HOUR}\t3\t0\t"worker"\t{cause.cells()}'.encode()


CAUSE = Cause("shop.Timeout", "no answer after 30 s", "0123456789ab")
STATE = f"dead/poison -token {NOW - HOUR} 5 4 3 2 1 6 1000".encode()
DEAD = DeadLetter(MessageRow("m-1", record(), STATE, history(CAUSE)), CODEC, "orders")
LIVE = Received(MessageRow("m-2", record(), b"", b""), CODEC, "orders")


def takes(text: str, message: Received[Any] = DEAD) -> bool:
    return Filter.parse(text).takes(message, NOW)


def verdict(text: str, message: Received[Any] = DEAD) -> bool | None:
    """True, False, or None for unknown: neither it nor its opposite is chosen."""
    found = takes(text, message), takes(f"NOT ({text})", message)
    assert found != (True, True)
    return None if found == (False, False) else found[0]


FIELDS = {
    "id": "'m-1'", "queue": "'orders'", "priority": "7", "size": str(len(DEAD.data)), "age": "7200",
    "delivery_count": "5", "charged": "4", "nacked": "3", "lapsed": "2", "released": "1", "redriven": "6",
    "redelivered": "TRUE", "reason": "'poison'", "error": "'shop.Timeout'",
    "message": "'no answer after 30 s'", "fingerprint": "'0123456789ab'",
    "original_queue": "'orders'", "died": "3600",
    "JMSMessageID": "'m-1'", "AMQUserID": "'m-1'", "JMSPriority": "7", "AMQPriority": "7",
    "JMSXDeliveryCount": "5", "JMSRedelivered": "TRUE", "AMQSize": str(len(DEAD.data)),
    "JMSTimestamp": str(NOW - 2 * HOUR), "AMQTimestamp": str(NOW - 2 * HOUR),
    "JMSExpiration": "0", "AMQExpiration": "0",
    "_AMQ_ORIG_ADDRESS": "'orders'", "_AMQ_ORIG_QUEUE": "'orders'",
}  # fmt: skip
OF_DEAD = ["reason", "error", "message", "fingerprint", "original_queue", "died"]
OF_DEAD += ["_AMQ_ORIG_ADDRESS", "_AMQ_ORIG_QUEUE"]


@each_row("name", FIELDS)
def test_fields(name: str) -> None:
    assert verdict(f"{name} = {FIELDS[name]}") is True
    assert verdict(f"{name} <> {FIELDS[name]}") is False
    assert verdict(f"{name} IS NULL") is False


def test_no_field_shows_what_masks_hide() -> None:
    """Nor will one that is new."""
    leak = "token=LEAK"
    packed = record()[:7] + CODEC.packer(7, {"a": leak}, key=leak, dependency=leak)(leak)
    cause = Cause(leak, leak, leak)
    letter = DeadLetter(MessageRow(leak, packed, STATE, history(cause)), CODEC, leak)
    seen = {name for name in FACTS if "LEAK" in str(MessageFacts(letter, NOW).field(name))}
    assert seen >= {"id", "queue", "key", "dependency", "error", "message", "fingerprint"}
    assert not {name for name in seen if "LEAK" in str(MessageFacts(letter, NOW, Masks()).field(name))}
    for text in (f"a = '{leak}'", f"body = '{leak}'"):
        assert takes(text, letter)
        assert not Filter(text).takes(letter, NOW, Masks())


def test_when_it_expired_is_as_artemis_says_it() -> None:
    expired = STATE.replace(b"dead/poison", b"expired/expired")
    letter = DeadLetter(MessageRow("m-3", record(), expired, history(CAUSE)), CODEC, "orders")
    assert verdict(f"_AMQ_ACTUAL_EXPIRY = {NOW - HOUR}", letter) is True
    assert verdict("_AMQ_ACTUAL_EXPIRY IS NULL", DEAD) is True
    assert verdict("_AMQ_ACTUAL_EXPIRY IS NULL", LIVE) is True


@each_row("name", FIELDS)
def test_fields_of_a_message_that_waits(name: str) -> None:
    assert verdict(f"{name} IS NULL", LIVE) is (name in OF_DEAD)


def test_when_a_message_expires() -> None:
    head = record()
    mortal = head[:7] + bytes([head[7] | records.EXPIRES]) + NOW.to_bytes(6, "big") + head[8:]
    assert takes(f"JMSExpiration = {NOW} AND AMQExpiration - JMSTimestamp = {2 * HOUR}", live(mortal))
    assert takes("JMSExpiration IS NULL", live(head[:7]))


def live(head: bytes) -> Received[Any]:
    return Received(MessageRow("m", head, b"", b""), CODEC, "orders")


OTHERS = [
    "_AMQ_LVQ_NAME", "_AMQ_DUPL_ID",
    "JMSCorrelationID", "JMSType", "JMSReplyTo", "JMSDestination", "JMSDeliveryMode", "JMSDeliveryTime",
    "JMSX", "JMS_AMQP_NATIVE", "AMQDurable", "AMQAddress",
]  # fmt: skip


@each_row("name", OTHERS)
def test_names_of_other_brokers_without_a_counterpart(name: str) -> None:
    """They would be NULL, and silently select nothing."""
    with pytest.raises(
        FilterError, match=rf'column 10, .*no {name}: .*(?:Timestamp|_EXPIRY).*"{name}" in double'
    ):
        Filter.parse(f"1 = 1 OR {name} = 'x'")
    message = Received(MessageRow("m", record(headers={name: "x"}), b"", b""), CODEC, "orders")
    assert takes(f"\"{name}\" = 'x'", message)
    assert verdict("jmsType = 'x' OR AMQmine = 'x'") is None


@each_row(
    "text",
    [
        "id = 'm-2'",
        "delivery_count = 0",
        "redelivered = FALSE",
        "NOT redelivered",
        "age = '2h'",
        "tenant = 'a'",
        "body.total = 12.5",
    ],
)
def test_a_message_that_waits(text: str) -> None:
    assert takes(text, LIVE)


CASES: dict[str, bool | None] = {
    # signs, and what compares with what
    "tenant = 'a'": True,
    "tenant == 'a'": True,
    "tenant <> 'a'": False,
    "tenant != 'b'": True,
    "tenant < 'b'": True,
    "tenant >= 'b'": False,
    "'a' = tenant": True,
    "tenant = 'A'": False,
    "Tenant = 'a'": None,
    "tenant=tenant": True,
    "tenant = count": False,
    "count = 10": True,
    "count = 10.0": True,
    "count = '10'": True,
    "count = '10.0'": False,
    "count > 9": True,
    "count > '9'": False,
    "count <= +1e1": True,
    "price = 19.9": True,
    "negative = -3": True,
    "negative < -2.5": True,
    "tenant = 1": None,
    "tenant <> 1": None,
    "größe = 1.5": None,
    "long = 12345678901234567891": True,
    "long > 12345678901234567890": True,
    "digits > 0": None,
    "priority = '7'": True,
    "priority = 'high'": None,
    "body.code = '0012'": True,
    "body.code = 12": True,
    "urgent = TRUE": True,
    "TRUE = urgent": True,
    "urgent = 'TRUE'": False,
    "tenant = TRUE": None,
    "urgent > FALSE": None,
    "1 = TRUE": None,
    "body.order.paid = TRUE": True,
    "body.order.paid <> FALSE": True,
    "body.order.paid = 1": None,
    "(tenant = 'a') = (count = 10)": True,
    # names
    "x-trace.id = 't-1'": True,
    "\"two words\" = 'yes'": True,
    '"a""b" = \'quoted\'': True,
    "\"priority\" = 'a header'": True,
    "\"body\" = 'another header'": True,
    "\"AND\" = 'reserved'": True,
    'tenant = ("tenant")': True,
    "'a' = \"tenant\"": True,
    "quote = 'it''s'": True,
    "empty = ''": True,
    "and_more IS NULL": True,
    "nothing IS NULL AND null_ IS NULL AND inner IS NULL AND trueish IS NULL": True,
    # the body
    "body.order.id = 7": True,
    "body.order.sku LIKE 'B%'": True,
    "body.order.note IS NULL": True,
    "body.order.none.deeper IS NULL": True,
    "body.total.x IS NULL": True,
    "body.order.lines IS NOT NULL": True,
    "body.order.lines = 1": None,
    "body.order = 'x'": None,
    "body = 'x'": None,
    "body IS NOT NULL": True,
    "body.big + 1 = 1000000000000000001": True,
    # conditions that are names
    "urgent": True,
    "NOT urgent": False,
    "redelivered": True,
    "body.order.paid": True,
    "tenant": None,
    "count": None,
    "nothing": None,
    "TRUE": True,
    "(false)": False,
    # NULL
    "nothing = 'a'": None,
    "nothing <> 'a'": None,
    "nothing = nothing": None,
    "nothing IS NULL": True,
    "nothing IS NOT NULL": False,
    "empty IS NULL": False,
    "(nothing = 1) IS NULL": True,
    "NOT tenant IS NULL": True,
    # IN
    "tenant IN ('a', 'b')": True,
    "tenant IN ('b')": False,
    "tenant NOT IN ('b', 'c')": True,
    "tenant not in ('a')": False,
    "count IN (9, 10)": True,
    "count IN ('9', 10)": True,
    "negative IN (-3)": True,
    "negative IN (+3)": False,
    "negative IN (3)": False,
    "negative NOT IN (3)": True,
    "tenant IN (1)": None,
    "tenant IN (1, 'b')": None,
    "tenant IN (1, 'a')": True,
    "tenant NOT IN (1, 'b')": None,
    "nothing IN ('a')": None,
    "nothing NOT IN ('a')": None,
    "priority IN ('7')": True,
    "age IN ('1h', '2h')": True,
    "age IN ('1h', '3h')": False,
    # BETWEEN
    "count BETWEEN 10 AND 11": True,
    "count BETWEEN 9 AND 10": True,
    "count BETWEEN 11 AND 9": False,
    "count NOT BETWEEN 1 AND 5": True,
    "count NOT BETWEEN 1 AND 50": False,
    "tenant BETWEEN 'a' AND 'b'": True,
    "nothing BETWEEN 1 AND 2": None,
    "count BETWEEN nothing AND 20": None,
    "count BETWEEN nothing AND 5": False,
    "count NOT BETWEEN nothing AND 5": True,
    "count BETWEEN 1 + 1 AND 2 * 10 AND tenant = 'a'": True,
    "5 BETWEEN negative AND count": True,
    # LIKE
    "id LIKE 'm-%'": True,
    "id LIKE 'm'": False,
    "id LIKE 'm__'": True,
    "id LIKE 'm_'": False,
    "id LIKE '%'": True,
    "id LIKE '%1'": True,
    "id LIKE '%m-1%'": True,
    "id LIKE 'm-1_%'": False,
    "id LIKE 'M%'": False,
    "id NOT LIKE 'x%'": True,
    "id NOT LIKE 'm%'": False,
    "nothing LIKE '%'": None,
    "nothing NOT LIKE '%'": None,
    "priority LIKE '7'": None,
    "empty LIKE ''": True,
    "empty LIKE '_'": False,
    "lines LIKE 'one_two'": True,
    "lines LIKE '%two'": True,
    "id LIKE '...'": False,
    "quote LIKE '%''s'": True,
    "path LIKE 'a\\b%'": True,
    "path LIKE '%\\%c%' ESCAPE '\\'": True,
    "path LIKE '%\\_c%' ESCAPE '\\'": False,
    "path LIKE '%c!_d' ESCAPE '!'": True,
    "path LIKE '%b!_c%' ESCAPE '!'": False,
    "path LIKE 'a\\\\b%' ESCAPE '\\'": True,
    "quote LIKE 'it''''s' ESCAPE ''''": True,
    # arithmetic
    "count + 1 = 11": True,
    "count - 1 * 2 = 8": True,
    "(count - 1) * 2 = 18": True,
    "count - 5 - 2 = 3": True,
    "count / 4 = 2.5": True,
    "12 / 3 / 2 = 2": True,
    "count / 0 = 1": None,
    "count / 0 IS NULL": True,
    "-count = -10": True,
    "- -count = 10": True,
    "+negative = -3": True,
    "5-3=2": True,
    "tenant + 1 = 2": None,
    "-tenant = 1": None,
    "nothing * 0 = 0": None,
    "urgent + 1 = 1": None,
    "1e300 * 1e300 > 0": None,
    "body.total * 2 = 25": True,
    "1e3 = 1000 AND .5 = 0.5 AND 2. = 2 AND 1E-1 = 0.1": True,
    # durations
    "age = '2h'": True,
    "'2h' = age": True,
    "age > '1h59m59s'": True,
    "age > '2h'": False,
    "age > 7199": True,
    "age = '7200'": True,
    "age BETWEEN '1h' AND '1d'": True,
    "died = '60m'": True,
    "died < age": True,
    "age > patience": True,
    "died > patience": False,
    "age > tenant": None,
    "age - died = '1h'": True,
    "age - '30m' = '90m'": True,
    "age / 2 = '1h'": True,
    "-age < 0": True,
    "patience = '90m'": True,
    "patience = '1h30m'": False,
    # precedence, keywords, space
    "TRUE OR TRUE AND FALSE": True,
    "(TRUE OR TRUE) AND FALSE": False,
    "NOT FALSE AND FALSE": False,
    "NOT (FALSE AND FALSE)": True,
    "NOT tenant = 'b'": True,
    "NOT NOT tenant = 'a'": True,
    "TenAnt IS nUlL aNd NoT fAlSe Or FALSE": True,
    "\n tenant\t=\r\n'a'  ": True,
    "tenant='a'AND(count>1)": True,
}


@each_row("text", CASES)
def test_conditions(text: str) -> None:
    assert verdict(text) is CASES[text]


TRUTH = {"TRUE": True, "FALSE": False, "nothing = 1": None}
CONJUNCTION = {(True, True): True, (True, None): None, (None, None): None}  # all others have a False
DISJUNCTION = {(False, False): False, (False, None): None, (None, None): None}  # all others have a True


@each_row("left", TRUTH)
@each_row("right", TRUTH)
def test_three_valued_logic(left: str, right: str) -> None:
    values = TRUTH[left], TRUTH[right]
    swapped = values[::-1]
    both = CONJUNCTION.get(values, CONJUNCTION.get(swapped, False))
    one = DISJUNCTION.get(values, DISJUNCTION.get(swapped, True))
    assert verdict(f"{left} AND {right}") is both
    assert verdict(f"{left} OR {right}") is one


@each_row("text, value", TRUTH.items())
def test_negation(text: str, value: bool | None) -> None:
    assert verdict(f"NOT {text}") is (None if value is None else not value)


# Trees of conditions: (text, how tightly it binds, value), the value by another way than the package's.
LEAVES = st.sampled_from([(text, 4, value) for text, value in TRUTH.items()])
STRENGTH = {"OR": 1, "AND": 2, "NOT": 3}
RANK = {False: 0, None: 1, True: 2}
Node = tuple[str, int, bool | None]


def inner(node: Node, strength: int) -> str:
    """In parentheses only where they are needed."""
    return node[0] if node[1] >= strength else f"({node[0]})"


def combined(word: str, left: Node, right: Node) -> Node:
    least_or_greatest = min if word == "AND" else max
    value = least_or_greatest(left[2], right[2], key=RANK.__getitem__)
    strength = STRENGTH[word]
    return f"{inner(left, strength)} {word} {inner(right, strength)}", strength, value


def opposite(node: Node) -> Node:
    value = None if node[2] is None else not node[2]
    return f"NOT {inner(node, STRENGTH['NOT'])}", STRENGTH["NOT"], value


TREES = st.recursive(
    LEAVES,
    lambda trees: (
        st.builds(combined, st.sampled_from(["AND", "OR"]), trees, trees) | st.builds(opposite, trees)
    ),
    max_leaves=20,
)


@given(TREES)
def test_precedence_and_logic(tree: Node) -> None:
    assert verdict(tree[0]) is tree[2]


@given(st.sampled_from([text for text in CASES if "\n" not in text]))
def test_not_not_is_nothing(text: str) -> None:
    assert verdict(f"NOT NOT ({text})") is CASES[text]


SUMS = st.recursive(
    st.integers(0, 99).map(str),
    lambda sums: (
        st.tuples(sums, st.sampled_from(["+", "-", "*"]), sums).map(" ".join) | sums.map("({})".format)
    ),
)


@given(SUMS)
def test_arithmetic_is_that_of_everyone(text: str) -> None:
    value = eval(text)  # noqa: S307 - numbers and signs, made above
    assert takes(f"{text} = {value}")
    assert not takes(f"{text} <> {value}")


@given(st.text("ab%_!", max_size=8), st.text("ab%_\n", max_size=8))
@example("%a%ab", "ab")
@example("a%a", "a")
@example("%ab%b%", "aab")
def test_like_as_a_search_that_goes_back(pattern: str, text: str) -> None:
    """Compared with a regular expression, which tries all ways."""
    if re.search(r"(?<!!)(!!)*!\Z", pattern):
        with pytest.raises(FilterError, match="ends with its escape character"):
            Filter.parse(f"x LIKE '{pattern}' ESCAPE '!'")
        return
    parts = re.findall(r"!.|.", pattern)
    expected = "".join({"%": ".*", "_": "."}.get(part, re.escape(part[-1])) for part in parts)
    message = Received(MessageRow("m", record(headers={"x": text}), b"", b""), CODEC, "q")
    found = takes(f"x LIKE '{pattern}' ESCAPE '!'", message)
    assert found is bool(re.fullmatch(expected, text, re.DOTALL))


@pytest.mark.timeout(20)
@each_row("pattern", ["%a" * 100 + "%b", "%_a" * 100 + "%b", "%" * 5000 + "b", "%" + "_" * 500 + "b"])
def test_like_does_not_explode(pattern: str) -> None:
    message = Received(MessageRow("m", record(headers={"x": "a" * 20_000}), b"", b""), CODEC, "q")
    assert verdict(f"x LIKE '{pattern}'", message) is False


WORDS = [
    "AND", "OR", "NOT", "IN", "BETWEEN", "LIKE", "ESCAPE", "IS", "NULL", "TRUE", "FALSE", "(", ")", ",", "=",
    "<>", "<", "+", "-", "*", "/", "'a'", "'!'", "'1h'", '"a"', "tenant", "age", "body.total", "priority-1",
    "1", "2.5", "-1", "9e999", "'", '"', ";", "&",
]  # fmt: skip


@given(
    st.text()
    | st.lists(st.sampled_from(WORDS)).map(" ".join)
    | st.text("()'\"a1.-=<> \n$%_\ud800", max_size=30)
)
@example("((a)")
@example("a = 1)")
@example("1E310A")
@example("a NOT NULL")
@example("'a' ''")
def test_any_text_is_a_filter_or_an_error_of_ours(text: str) -> None:
    try:
        chosen = Filter.parse(text).takes(DEAD, NOW)
    except FilterError as error:
        sentence(error)
    else:
        assert isinstance(chosen, bool)


def sentence(error: Exception) -> str:
    """The text of an error: short, of one line, printable, and it says something."""
    text = str(error)
    assert 20 < len(text) < 400
    assert text.isprintable()
    return text


VALUE = "expected a name, text in single quotes or a number"
BAD: list[tuple[Any, str, str]] = [
    # what it is; where; what is said
    ("", "", "the condition is empty. Write a condition such as tenant = 'a' AND delivery_count > 2"),
    (" \n", "", "the condition is empty"),
    (None, "", "a condition must be text, not of type NoneType"),
    (b"a = 1", "", "a condition must be text, not of type bytes"),
    ("a = 1 OR " * 20_000, "", "a condition of 180,000 characters is too long: the limit is 100,000"),
    ("a = '\ud800'", "column 6", "this is not a character (a lone surrogate)"),
    ("a =", "column 4, at its end", VALUE),
    ("a = \n", "at its end", VALUE),
    ("a AND", "column 6, at its end", VALUE),
    ("= 1", "column 1, at '= 1'", VALUE),
    ("a <> = 1", "column 6, at '= 1'", VALUE),
    ("and = 1", "column 1, at 'and = 1'", VALUE),
    ("a = 1\nOR b = 2\n  OR OR", "line 3, column 6, at 'OR'", VALUE),
    ("a 'b'", "column 3", "expected a comparison (=, <>, <, IN, LIKE, BETWEEN, IS NULL), AND, OR or the end"),
    ("a = b = c", "column 7, at '= c'", "expected AND, OR or the end"),
    ("a = 1)", "column 6, at ')'", "expected the end"),
    ("(a = 1", "column 7, at its end", "expected a closing parenthesis"),
    ("a IN ()", "column 7", "expected text in single quotes or a number"),
    ("a IN (b)", "column 7", "expected text in single quotes or a number"),
    ("a IN 'b'", "column 6", "expected an opening parenthesis"),
    ("a IN ('b' 'c')", "column 11", "expected a comma or a closing parenthesis"),
    ("a NOT 1", "column 7", "expected IN, LIKE or BETWEEN"),
    ("a BETWEEN 1 OR 2", "column 13", "expected AND"),
    ("a IS 5", "column 6", "expected NULL or NOT"),
    ("a LIKE b", "column 8", "expected text in single quotes"),
    ("a = #", "column 5", "this character has no meaning here"),
    # slips
    (
        'a = "b"',
        "column 5",
        "double quotes name a header: put text in single quotes ('b'), a header in parentheses",
    ),
    ('"a" <> "it\'s"', "column 8", "put text in single quotes ('it''s')"),
    ("a BETWEEN \"b\" AND 'c'", "column 11", "put text in single quotes ('b')"),
    ("a BETWEEN 'b' AND \"c\"", "column 19", "put text in single quotes ('c')"),
    ('a = "' + "b" * 99 + '"', "column 5", "put text in single quotes ('a')"),
    ('a IN ("b")', "column 7", "text goes into single quotes: 'b'"),
    ('a LIKE "b%"', "column 8", "text goes into single quotes: 'b%'"),
    ("a = NULL", "column 5, at 'NULL'", "nothing equals NULL: write IS NULL, or IS NOT NULL"),
    ("age > 1h", "column 8", "a duration goes into single quotes ('1h30m')"),
    ("age > 'soon'", "column 7", "'soon' is not a duration up to ten years: write '1m30s'"),
    ("'20y' < died", "column 1", "'20y' is not a duration"),
    ("age IN ('x')", "column 9", "'x' is not a duration"),
    ("age BETWEEN '1h' AND ''", "column 22", "'' is not a duration"),
    ("age - 'x' > 1", "column 7", "'x' is not a duration"),
    (
        "priority-1 = 2",
        "column 1",
        'this is one name: write priority - 1 to subtract, or "priority-1" for the header',
    ),
    ("a = 'b", "column 5", "the text has no end: close it with a single quote"),
    ("a = 'it''s", "column 5", "the text has no end"),
    ("a = 'it's'", "column 9", "double a single quote within text: 'it''s'"),
    ('"a = 1', "column 1", "the name has no end: close it with a double quote"),
    ("a && b", "column 3", "write AND"),
    ("a || b", "column 3", "write OR"),
    ("! a", "column 1", "write NOT"),
    ("`a` = 1", "column 1", "put a header's name in double quotes"),
    ("a = 1;", "column 6", "without a semicolon"),
    ("a = \u2018b\u2019", "column 5", "use straight quotes"),
    (
        "a = 'b' OR 'c'",
        "column 12",
        "this text is neither true nor false: compare it with something, or write name IN",
    ),
    ("NOT 1", "column 5", "a number is neither true nor false"),
    ("count + 1", "column 1", "a number is neither true nor false"),
    ("'a' + 1 = 2", "column 1", "this text is not a number"),
    ("1 - (a = 1) = 2", "column 6", "a condition is not a number"),
    ("-'a' = 2", "column 2", "this text is not a number"),
    ("1e999 > 1", "column 1", "this number is too large"),
    (
        "a LIKE 'b!' ESCAPE '!'",
        "column 8",
        "the pattern ends with its escape character: double it (!!), or remove it",
    ),
    ("a LIKE 'b' ESCAPE ''", "column 19", "ESCAPE takes one character: ESCAPE '!'"),
    ("a LIKE 'b' ESCAPE 'ab'", "column 19", "ESCAPE takes one character"),
    ("NOT " * 200 + "a", "column 405", "it is nested deeper than 100 levels"),
    ("- " * 200 + "a = 1", "column 203", "it is nested deeper than 100 levels"),
    ("(a OR " * 5_000 + "b" + ")" * 5_000, "column", "it is nested deeper than 100 levels"),
    ("(" * 50_000, "at its end", VALUE),
]


@each_row("text, place, said", BAD)
def test_bad_input(text: Any, place: str, said: str) -> None:
    with pytest.raises(FilterError) as raised:
        Filter.parse(text)
    told = sentence(raised.value)
    assert said in told
    assert place in told
    assert told.startswith(
        f"the condition cannot be read ({place}" if place.startswith(("col", "line")) else ""
    )


def test_the_error_is_one_of_input() -> None:
    with pytest.raises(InvalidInput):
        Filter.parse("=")


def test_long_filters_are_no_deep_ones() -> None:
    assert takes(" OR ".join(["tenant = 'b'"] * 5000 + ["tenant = 'a'"]))
    assert takes(" + ".join(["1"] * 5000) + " = 5000")
    assert takes("(" * 20_000 + "tenant = 'a'" + ")" * 20_000)
    ids = ", ".join(f"'id-{i}'" for i in range(7000))
    assert not takes(f"id IN ({ids})")
    assert takes(f"id IN ({ids}, 'm-1')")


@pytest.mark.timeout(20)
def test_nested_between_evaluates_each_part_once() -> None:
    text = "count"
    for _ in range(50):
        text = f"({text} BETWEEN 1 AND 99)"
    assert verdict(text) is None  # a condition is not a number


def test_as_deep_as_allowed() -> None:
    assert takes("NOT " * 98 + "tenant = 'a'")
    with pytest.raises(FilterError, match="nested deeper"):
        Filter.parse("NOT " * 99 + "tenant = 'a'")


class Guarded(Received[Any]):
    """Counts how often its body and its headers are read."""

    def __init__(self, row: MessageRow) -> None:
        super().__init__(row, CODEC, "q")
        self.reads: list[str] = []

    @property
    def data(self) -> bytes:
        self.reads.append("data")
        return super().data

    @property
    def headers(self) -> Any:
        self.reads.append("headers")
        return super().headers


@each_row(
    "text, reads",
    [
        ("id = 'm' AND priority = 7", []),
        ("id = 'x' AND body.total = 1", []),
        ("body.total = 12.5 AND body.order.id = 7 AND body.none IS NULL", ["data"]),
        ("tenant = 'a' AND count = 10", ["headers"]),
    ],
)
def test_reads_what_it_needs_and_once(text: str, reads: list[str]) -> None:
    message = Guarded(MessageRow("m", record(), b"", b""))
    Filter.parse(text).takes(message, NOW)
    assert message.reads == reads


OF_STATE = [
    "delivery_count", "charged", "nacked", "lapsed", "released", "redriven", "redelivered", "reason", "died",
]  # fmt: skip
EVERYTHING = [*FIELDS, "tenant", "body", "body.total"]
NULLS = {
    "an empty record": ({"record": b""}, ["priority", "size", "age", "tenant", "body"]),
    "a record cut off": ({"record": record()[:7]}, ["priority", "size", "age", "tenant", "body"]),
    "no birth": ({"record": bytes(7) + record()[7:]}, ["age"]),
    "headers of no JSON": ({"record": record()[:7] + b"\x24\x00\x05hello"}, ["tenant", "size", "body"]),
    "a body of no JSON": ({"record": record()[:7] + b"\x04hello"}, ["tenant", "body", "body.total"]),
    "a body of bytes": ({"record": record(b"\xff\x00")}, ["body", "body.x"]),
    "a body too deep": ({"record": record()[:7] + b"\x04" + b"[" * 100_000}, ["body", "body.x"]),
    "a body that is a list": ({"record": record([1])}, ["body.x"]),
    "a state of nonsense": ({"state": b"nonsense"}, OF_STATE),
    "a death beyond the calendar": ({"state": STATE.replace(b"1789996400000", b"9" * 18)}, ["died"]),
    "no history": ({"history": b""}, ["error", "message", "fingerprint"]),
    "a history of nonsense": ({"history": b"\t" * 9 + b"\n\xff"}, ["error", "message", "fingerprint"]),
    "facts too deep": (
        {"history": history(CAUSE).replace(b'"shop.Timeout"', b"[" * 100_000)},
        ["error", "message", "fingerprint"],
    ),
    "an error without a class": ({"history": history(Cause("", "no stock", "f"))}, ["error"]),
}


@each_row("name", NULLS)
def test_what_cannot_be_read_is_null(name: str) -> None:
    damage, nulls = NULLS[name]
    row: dict[str, Any] = {"id": "m-1", "record": record(), "state": STATE, "history": history(CAUSE)}
    letter: DeadLetter[Any] = DeadLetter(MessageRow(**row | damage), CODEC, "orders")
    for field in nulls:
        assert takes(f"{field} IS NULL", letter), field
    for field in EVERYTHING:
        assert isinstance(takes(f"{field} = 1", letter), bool)


def test_an_expired_letter_has_a_cause() -> None:
    letter = DeadLetter(MessageRow("m", record(), STATE.replace(b"poison", b"expired"), b""), CODEC, "q")
    assert takes("reason = 'expired' AND error = 'Expired' AND fingerprint = 'expired'", letter)


@each_row("name", [*EVERYTHING, '"tenant"', '"priority"'])
@each_row("kind", [DeadLetter, Received])
def test_what_a_filter_needs_is_enough(name: str, kind: Any) -> None:
    """Of a message of which nothing else was fetched, it reads the same; whatever stands around the name."""
    state = STATE if kind is DeadLetter else STATE.replace(b"dead/poison", b"live")
    row = MessageRow("m-1", record(), state, history(CAUSE))
    values = (f"{name} IS NULL", f"{name} = {FIELDS.get(name, '12.5')}", f"NOT ({name} > 1 OR 1 > 2)")
    others = (f"{name} IN ('1h', 1)", f"{name} BETWEEN 1 AND 3", f"2 < 1 + {name} * 2", f"{name} LIKE '%a%'")
    for text in (*values, *others, f"id = 'm-2' OR {name} <> 0", f"id = 'm-1' AND -({name}) < 0"):
        condition = Filter.parse(text)
        part = fetched(row, condition.needs)
        assert condition.takes(kind(part, CODEC, "orders"), NOW) is condition.takes(
            kind(row, CODEC, "orders"), NOW
        ), text


def fetched(row: MessageRow, wanted: Wanted) -> MessageRow:
    """What comes of a message of which these parts are wanted."""
    size = {"whole": None, "head": 14, "no": 0}[wanted.record]
    return row._replace(
        record=row.record[:size],
        state=row.state if wanted.state else b"",
        history=row.history if wanted.history else b"",
    )


@each_row(
    "text, wanted",
    [
        ("id = 'm' OR queue = 'q'", Wanted("no", state=False, history=False)),
        ("priority > 3 AND delivery_count > 1", Wanted("head", state=True, history=False)),
        ("error = 'E' AND age > '1h'", Wanted("head", state=True, history=True)),
        ("tenant = 'a'", Wanted("whole", state=False, history=False)),
        ("body.total > 1 AND died < '1h'", Wanted("whole", state=True, history=False)),
    ],
)
def test_no_more_is_needed(text: str, wanted: Wanted) -> None:
    assert Filter.parse(text).needs == wanted


ALL_FIELDS = Filter.parse(
    " OR ".join(f"{name} = tenant OR {name} > 1 OR {name} LIKE 'x%y'" for name in EVERYTHING)
)


@given(record=st.binary(max_size=40), state=st.binary(max_size=40), history=st.binary(max_size=80))
@example(record=b"\xff" * 30, state=b"dead/poison - " + b" ".join([b"9" * 18] * 8), history=b"\t" * 6)
@example(record=b"\0" * 7 + b'\x04{"total": 1e999}', state=b"dead/poison -" + b" 0" * 8, history=b"")
def test_damage_of_any_kind_raises_nothing(record: bytes, state: bytes, history: bytes) -> None:
    for kind in (Received, DeadLetter):
        assert isinstance(
            ALL_FIELDS.takes(kind(MessageRow("m", record, state, history), CODEC, "q"), NOW), bool
        )


def test_is_a_value() -> None:
    one, other = Filter.parse("tenant = 'a'"), Filter("tenant = 'a'")
    assert one == other
    assert hash(one) == hash(other)
    assert one != Filter.parse("tenant='a'")
    assert str(one) == one.text == "tenant = 'a'"
    assert repr(one) == "Filter(\"tenant = 'a'\")"
    assert eval(repr(one)) == one  # noqa: S307
    with pytest.raises(FrozenInstanceError):
        one.text = "x"  # type: ignore[misc]


@each_row("again", [lambda f: pickle.loads(pickle.dumps(f)), copy.copy, copy.deepcopy])  # noqa: S301
def test_copies_work(again: Any) -> None:
    copied = again(Filter.parse("tenant = 'a'"))
    assert copied == Filter.parse("tenant = 'a'")
    assert copied.takes(DEAD, NOW)


def test_the_parser_is_loaded_when_a_filter_is_read() -> None:
    program = (
        "import sys, rq_dlq.filters as f; before = 'lark' in sys.modules; "
        "f.Filter.parse('a'); print(before, 'lark' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]


@each_row(
    "first, more",
    [
        ("a = 1", "+1"),
        ("a = 1", "*1"),
        ("a = 1", " OR a = 1"),
        ("a = 1", " AND a = 1"),
        ("a IN ('a'", ",'a'"),
    ],
)
def test_the_work_grows_with_the_text_and_not_faster(first: str, more: str) -> None:
    end = ")" if "IN" in first else ""
    assert growth(lambda number: Filter(first + more * number + end), 50) < 6
