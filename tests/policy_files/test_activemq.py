"""Classic's activemq.xml."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rq_dlq.policy import PolicyMap, QueueSettings, RedeliveryPolicy
from rq_dlq.policy_files import Reading, read_broker_xml
from rq_dlq.policy_files._others import CLASSIC
from tests.tables import each_row

DATA = Path(__file__).parents[2] / "examples"


def policies(*lines: str) -> str:
    return "<policyMap><policyEntries>\n" + "\n".join(lines) + "\n</policyEntries></policyMap>"


def plugin(*lines: str, switches: str = "", default: str = "") -> str:
    head = f"<redeliveryPlugin {switches}><redeliveryPolicyMap><redeliveryPolicyMap><redeliveryPolicyEntries>"
    inner = f"<defaultEntry>{default}</defaultEntry>" if default else ""
    tail = f"</redeliveryPolicyEntries>{inner}</redeliveryPolicyMap></redeliveryPolicyMap></redeliveryPlugin>"
    return "\n".join([head, *lines, tail])


def letters(queue: str, strategy: str) -> str:
    inner = f"<deadLetterStrategy>{strategy}</deadLetterStrategy>"
    return f'<policyEntry queue="{queue}">{inner}</policyEntry>'


def read(*parts: str) -> Reading:
    return read_broker_xml(("<broker>" + "".join(parts) + "</broker>").encode())


def settings(reading: Reading, queue: str) -> QueueSettings:
    assert reading.problems == []
    return PolicyMap(reading.entries).settings(queue)


def test_the_sample_says_what_classic_would_do() -> None:
    reading = read_broker_xml((DATA / "activemq.xml").read_bytes())
    orders, mails = settings(reading, "orders.eu"), settings(reading, "mails")
    assert orders.redelivery == RedeliveryPolicy.activemq(
        maximumRedeliveries=4,
        initialRedeliveryDelay=5000,
        redeliveryDelay=10000,
        useExponentialBackOff=True,
        backOffMultiplier=2,
        maximumRedeliveryDelay=60000,
    )
    assert mails.redelivery == RedeliveryPolicy.activemq(maximumRedeliveries=2, redeliveryDelay=1000)
    assert (orders.dead_name, mails.dead_name) == ("DLQ.orders.eu", "Orders.Lost")
    assert (orders.dead_letter.expiration, mails.dead_letter.expiration) == (86400, None)
    assert (orders.dead_letter.process_expired, mails.dead_letter.process_expired) == (True, False)
    assert (orders.dead_letter.process_non_persistent, mails.dead_letter.process_non_persistent) == (
        False,
        True,
    )
    assert mails.expiry.discard is True
    assert settings(reading, "metrics.cpu").dead_letter.STRATEGY == "discarding"
    assert settings(reading, "noise.123").dead_letter.STRATEGY == "discarding"
    assert settings(reading, "noise.1234").dead_letter.STRATEGY == "shared"


def test_each_attribute_is_told_with_its_own_line() -> None:
    text = (DATA / "activemq.xml").read_text().splitlines()
    reading = read_broker_xml((DATA / "activemq.xml").read_bytes())
    for finding in reading.findings:
        if finding.value and finding.setting != "deadLetterQueue":
            assert f'{finding.setting}="' in text[finding.line - 1]
    lines = {finding.setting: finding.line for finding in reading.findings if finding.value}
    assert (lines["persistJMSRedelivered"], lines["expiration"], lines["backOffMultiplier"]) == (17, 20, 43)


@each_row("name", sorted(CLASSIC))
def test_what_is_not_taken_over_is_told_why(name: str) -> None:
    reading = read(policies(f'<policyEntry queue="a" {name}="1"/>'))
    (finding,) = (one for one in reading.findings if one.setting == name)
    assert (finding.line, finding.value) == (2, "1")
    assert finding.outcome in {"not needed", "no counterpart"}
    assert finding.note


MEANT: list[tuple[str, dict[str, Any]]] = [
    ("", {"strategy": "shared", "name": "ActiveMQ.DLQ", "process_expired": True, "expiration": None}),
    ("<sharedDeadLetterStrategy/>", {"name": "ActiveMQ.DLQ", "process_non_persistent": False}),
    ("<sharedDeadLetterStrategy deadLetterQueue='queue://Lost'/>", {"name": "Lost"}),
    ("<sharedDeadLetterStrategy expiration='0'/>", {"expiration": None}),
    ("<sharedDeadLetterStrategy expiration='5000' enableAudit='false'/>", {"expiration": 5000}),
    ("<individualDeadLetterStrategy/>", {"strategy": "individual", "prefix": "ActiveMQ.DLQ.Queue."}),
    ("<individualDeadLetterStrategy queuePrefix='' queueSuffix='.x'/>", {"prefix": "", "suffix": ".x"}),
    ("<discarding processNonPersistent='true'/>", {"strategy": "discarding", "process_expired": True}),
]


@each_row("strategy, meant", MEANT)
def test_a_strategy_becomes(strategy: str, meant: dict[str, Any]) -> None:
    entry = letters("a.>", strategy) if strategy else '<policyEntry queue="a.>"/>'
    said = settings(read(policies(entry)), "a.b").dead_letter.as_wire()
    assert {field: said.get(field) for field in meant} == meant


def test_the_best_entry_counts_alone() -> None:
    reading = read(
        policies(
            letters(
                ">", "<individualDeadLetterStrategy queueSuffix='.x' expiration='5' processExpired='false'/>"
            ),
            '<policyEntry queue="a.>"/>',
            '<policyEntry queue="b,c.*"/>',
            '<policyEntry topic="a.>"/><policyEntry tempQueue="true"/>',
        ),
        plugin('<redeliveryPolicy queue="a.b"/>', default="<redeliveryPolicy maximumRedeliveries='2'/>"),
    )
    inner, outer = settings(reading, "a.b"), settings(reading, "x")
    assert (inner.dead_name, inner.dead_letter.expiration) == ("ActiveMQ.DLQ", None)
    assert (inner.dead_letter.process_expired, outer.dead_letter.process_expired) == (True, False)
    assert outer.dead_name == "ActiveMQ.DLQ.Queue.x.x"
    assert settings(reading, "c.d").dead_name == settings(reading, "b").dead_name == "ActiveMQ.DLQ"
    assert inner.redelivery == RedeliveryPolicy.activemq()
    assert outer.redelivery.max_redeliveries == settings(reading, "a.c").redelivery.max_redeliveries == 2


def test_a_default_entry_counts_where_none_is_for_all() -> None:
    default = "<policyMap><defaultEntry><policyEntry/></defaultEntry></policyMap>"
    strategy = letters("&gt;", "<discarding/>")
    assert settings(read(default), "x").dead_name == "ActiveMQ.DLQ"
    assert settings(read(default, policies(strategy)), "x").dead_letter.STRATEGY == "discarding"


INDIVIDUAL, SHARED, DROPPED = "individual", "shared", "discarding"
NOT_SENT, NO_FALLBACK = 'sendToDlqIfMaxRetriesExceeded="false"', 'fallbackToDeadLetter="false"'
DEFAULT = "<redeliveryPolicy/>"
FATES: list[tuple[str, str, dict[str, str]]] = [
    ("", "", {"a.b": INDIVIDUAL, "a.x": INDIVIDUAL, "c": SHARED, "x": INDIVIDUAL}),
    (NO_FALLBACK, "", {"a.b": INDIVIDUAL, "a.x": DROPPED, "c": SHARED, "x": DROPPED}),
    (NOT_SENT, "", {"a.b": DROPPED, "a.x": INDIVIDUAL, "c": DROPPED, "x": INDIVIDUAL}),
    (f"{NOT_SENT} {NO_FALLBACK}", "", {"a.b": DROPPED, "a.x": DROPPED, "c": DROPPED, "x": DROPPED}),
    (NOT_SENT, DEFAULT, {"a.b": DROPPED, "a.x": DROPPED, "c": DROPPED, "x": DROPPED}),
    (NO_FALLBACK, DEFAULT, {"a.b": INDIVIDUAL, "a.x": INDIVIDUAL, "c": SHARED, "x": SHARED}),
]


@each_row("switches, default, strategies", FATES)
def test_switches_of_the_redelivery_plugin(switches: str, default: str, strategies: dict[str, str]) -> None:
    reading = read(
        policies(letters("a.>", "<individualDeadLetterStrategy/>"), '<policyEntry queue="c"/>'),
        plugin(
            '<redeliveryPolicy queue="a.b"/>',
            '<redeliveryPolicy queue="c"/>',
            switches=switches,
            default=default,
        ),
    )
    found = {queue: settings(reading, queue).dead_letter.STRATEGY for queue in strategies}
    assert found == strategies


@each_row(
    "attributes, queue, dropped",
    [
        ("", "ANY.THING", True),
        ('dropOnly="MY.EXAMPLE.QUEUE.87"', "PAYMENTS", False),
        ('dropAll="false" dropOnly="MY.EXAMPLE.QUEUE.[0-9]{3} X"', "MY.EXAMPLE.QUEUE.000", True),
        ('dropAll="false" dropOnly="MY.EXAMPLE.QUEUE.[0-9]{3} X"', "MY.EXAMPLE.QUEUE.1000", False),
        ('dropAll="false" dropOnly="A.B"', "AxB", False),
        ('dropAll="false" reportInterval="0"', "A", False),
        ('dropAll="true" reportInterval="7" dropTemporaryQueues="false"', "A", True),
        ('dropOnly=".*"', "ANY.THING", True),
        ('dropOnly="q.*"', "q", True),
        ('dropOnly="q.*"', "quick.one.two", True),
        ('dropOnly="q.*"', "a.q", False),
        ('dropOnly="A.B.*"', "A.B", True),
        ('dropOnly="A.B.*"', "A.C", False),
        ('dropOnly="A.B..*"', "A.B", False),
        ('dropOnly="A.B..*"', "A.B.C.D", True),
        (r'dropOnly="A\.B\..*"', "A.B.C", True),
        ('dropOnly="[a-z&amp;&amp;[^b]] X"', "b", False),
        ('dropOnly="[a-z&amp;&amp;[^b]] X"', "X", True),
    ],
)
def test_the_plugin_that_drops_dead_letters(attributes: str, queue: str, dropped: bool) -> None:
    reading = read(
        policies(letters(queue, "<individualDeadLetterStrategy/>")),
        f"<discardingDLQBrokerPlugin {attributes}/>",
    )
    assert (settings(reading, queue).dead_letter.STRATEGY == "discarding") == dropped


@each_row("only", ["a.+b", "[a-z&amp;&amp;[^b]]", ".{3}", r"a\.b.*c", r"\Qa.b\E"])
def test_an_expression_over_whole_names_does_not_become_nothing_in_silence(only: str) -> None:
    reading = read(f'<discardingDLQBrokerPlugin dropOnly="{only}"/>')
    assert reading.problems == []
    assert [(one.setting, one.outcome) for one in reading.findings] == [("dropOnly", "no counterpart")]
    assert "its queues keep dead letters" in reading.findings[0].note


def test_an_audit_that_is_off_has_no_counterpart() -> None:
    strategy = "<individualDeadLetterStrategy enableAudit='false'/>"
    reading = read(policies(f"<policyEntry queue='a' enableAudit='false'><deadLetterStrategy>{strategy}"
                            "</deadLetterStrategy></policyEntry>"))  # fmt: skip
    told = [(one.outcome, one.note) for one in reading.findings if one.setting == "enableAudit"]
    assert [outcome for outcome, _ in told] == ["no counterpart"] * 2
    assert all("is ignored here" in note for _, note in told)


def test_ids_after_the_ack_are_named() -> None:
    (note,) = [one.note for one in read(policies('<policyEntry queue="a"/>')).findings
               if one.setting == "enableAudit"]  # fmt: skip
    assert "--dedup-window 10m" in note


def test_the_plugin_that_stamps_times() -> None:
    def expiry(attributes: str) -> dict[str, Any]:
        reading = read(policies(letters(">", "<discarding/>")), f"<timeStampingBrokerPlugin {attributes}/>")
        said = settings(reading, "a").expiry.as_wire()
        return {name: said[name] for name in ("expiry_delay", "max_expiry_delay")}

    override, ceiling = 'zeroExpirationOverride="5000"', 'ttlCeiling="5000" futureOnly="true"'
    assert expiry(override) == {"expiry_delay": 5000, "max_expiry_delay": None}
    assert expiry(ceiling) == {"expiry_delay": None, "max_expiry_delay": None}
    assert expiry(f"{override} {ceiling}") == {"expiry_delay": None, "max_expiry_delay": 5000}
    assert expiry('zeroExpirationOverride="0"') == {"expiry_delay": None, "max_expiry_delay": None}


def test_redeliveries_of_a_client_are_told_of() -> None:
    reading = read(plugin('<redeliveryPolicy queue="a" maximumRedeliveries="4"/>'))
    (note,) = (one.note for one in reading.findings if one.setting == "maximumRedeliveries")
    assert "25 deliveries" in note
    client = read("<connectionFactory><redeliveryPolicy maximumRedeliveries='3'/></connectionFactory>")
    assert ["it belongs to a client" in one.note for one in client.findings] == [True]
    without = read(policies('<policyEntry queue="a"/>'))
    assert any("without a redeliveryPlugin, clients redeliver" in one.note for one in without.findings)


def test_the_other_files_of_spring_are_named() -> None:
    """Every activemq.xml that Classic ships imports jetty.xml."""
    entries = policies('<policyEntry queue="a"/>')
    reading = read_broker_xml(
        f'<beans>\n<import resource="jetty.xml"/><broker>{entries}</broker></beans>'.encode()
    )
    assert list(reading.entries) == ["a"]
    (told,) = (one for one in reading.findings if one.place == "import")
    assert (told.line, told.setting, told.value, told.outcome) == (
        2,
        "resource",
        "jetty.xml",
        "no counterpart",
    )
    assert "is not read" in told.note


def test_the_policy_of_a_client_in_spring_is_named() -> None:
    policy = (
        '<bean class="org.apache.activemq.RedeliveryPolicy"><property name="maximumRedeliveries"/></bean>'
    )
    (problem,) = read_broker_xml(f"<beans>\n{policy}</beans>".encode()).problems
    assert (problem.line, problem.setting) == (2, "RedeliveryPolicy")
    assert "pass its properties to RedeliveryPolicy.activemq(" in problem.message


WRONG: list[tuple[str, list[tuple[int, str, str]]]] = [
    ("", [(1, "", "nothing to import")]),
    (policies('<policyEntry queue="a" memorylimits="1"/>'), [(2, "memorylimits", "closest is memoryLimit")]),
    (policies('<policyEntry queue="a"><dispatch/></policyEntry>'), [(2, "dispatch", "no such setting")]),
    (policies("<policyEntry/>"), [(2, "policyEntry", "it names no queues")]),
    (
        policies('<policyEntry queue="a"\n deadLetterStrategy="#x"/>'),
        [(3, "deadLetterStrategy", "elsewhere")],
    ),
    (policies(letters("a", "<bean/>")), [(2, "deadLetterStrategy", "bean is not one of")]),
    (policies(letters("a", "")), [(2, "deadLetterStrategy", "nothing is not one of")]),
    (
        policies(letters("a", "<discarding queuePrefix='x'/>")),
        [(2, "queuePrefix", "discarding has no such setting")],
    ),
    (
        policies(letters("a", "<individualDeadLetterStrategy\nqueuePrefix=''/>")),
        [(3, "queuePrefix", "the name would be the queue's own")],
    ),
    (
        policies(letters("a", "<sharedDeadLetterStrategy deadLetterQueue='my queue'/>")),
        [(2, "deadLetterQueue", "cannot name a queue")],
    ),
    (
        policies(letters("a", "<sharedDeadLetterStrategy expiration='1d' processExpired='no'/>")),
        [(2, "processExpired", "neither true nor false"), (2, "expiration", "not a whole number")],
    ),
    (
        policies('<policyEntry queue="a.>"/>', '<policyEntry queue="a.>"/>'),
        [(3, "queue", "a.# already has an entry, line 2")],
    ),
    (plugin('<redeliveryPolicy maximumRedeliveries="1"/>'), [(2, "redeliveryPolicy", "it names no queues")]),
    (
        plugin('<redeliveryPolicy queue="a" maximumRedelivery="1"/>'),
        [(2, "maximumRedelivery", "closest is max")],
    ),
    (
        plugin('<redeliveryPolicy queue="a" redeliveryDelay="1s"/>'),
        [(2, "redeliveryDelay", "not a whole number")],
    ),
    (
        plugin('<redeliveryPolicy queue="a" maximumRedeliveries="-2"/>'),
        [(2, "maximumRedeliveries", "or None (or -1) for no limit")],
    ),
    (
        plugin('<redeliveryPolicy queue="a"\n redeliveryDelay="9000"\n maximumRedeliveryDelay="5000"/>'),
        [(4, "maximumRedeliveryDelay", "is longer than maximumRedeliveryDelay")],
    ),
    (
        plugin('<redeliveryPolicy queue="a" collisionAvoidancePercent="150"/>'),
        [(2, "collisionAvoidancePercent", "0 to 100")],
    ),
    (
        plugin(switches='fallbackToDeadLetter="maybe"'),
        [(1, "fallbackToDeadLetter", "neither true nor false")],
    ),
    (plugin(switches='redeliveryPolicyMap="#x"'), [(1, "redeliveryPolicyMap", "elsewhere")]),
    (plugin(switches='fallback="x"'), [(1, "fallback", "no such setting")]),
    ("<discardingDLQBrokerPlugin dropAll='true' dropOnly='x'/>", [(1, "dropOnly", "Remove one of them")]),
    ("<discardingDLQBrokerPlugin dropOnly='a.('/>", [(1, "dropOnly", "not a regular expression")]),
    ("<discardingDLQBrokerPlugin dropsAll='true'/>", [(1, "dropsAll", "the closest is dropAll")]),
    ("<timeStampingBrokerPlugin ttlCeiling='-1'/>", [(1, "ttlCeiling", "not a whole number, 0 or more")]),
    ("<timeStampingBrokerPlugin ttl='1'/>", [(1, "ttl", "no such setting")]),
]


@each_row("text, problems", WRONG)
def test_what_is_wrong_is_named_with_its_line(text: str, problems: list[tuple[int, str, str]]) -> None:
    reading = read(text)
    assert [(one.line, one.setting) for one in reading.problems] == [(at, name) for at, name, _ in problems]
    for problem, (_, _, message) in zip(reading.problems, problems, strict=True):
        assert message in problem.message
    assert reading.entries == {}


def test_names_that_are_none_here_are_told_and_may_be_mapped() -> None:
    text = "<broker>" + policies('<policyEntry queue="my queue"/>', '<policyEntry queue="ok"/>') + "</broker>"
    reading = read_broker_xml(text.encode())
    assert list(reading.entries) == ["ok"]
    assert any("--map 'my queue=…'" in one.note for one in reading.findings)
    assert list(read_broker_xml(text.encode(), {"my queue": "mine"}).entries) == ["mine", "ok"]


def notes(text: str) -> list[str]:
    return [one.note for one in read(text).findings if one.setting == "queue" and not one.value]


def test_queues_that_no_entry_covers_are_told() -> None:
    (note,) = notes(policies('<policyEntry queue="a.>"/>', '<policyEntry queue="b"/>'))
    assert "queues outside a.#, b: dead letters were in ActiveMQ.DLQ, and are in DLQ.<queue>" in note
    assert notes(policies('<policyEntry queue="a.>"/>', '<policyEntry queue=">"/>')) == []
    (note,) = notes(policies('<policyEntry topic=">"/>'))
    assert "all queues: dead letters were in ActiveMQ.DLQ, and are in DLQ.<queue>" in note


@each_row(
    "one, other, like",
    [
        ("*.x", "a.*", "a.x"),
        ("*.x.>", "a.*.b", "a.x.b"),
        ("*.x.>", "a.>", "a.x.#"),
        ("*.x.>", "a.b.>", None),
        ("*.x", "a.*.b", None),
        ("a.>", "a.*", None),  # one of them is the narrower one, there as here
    ],
)
def test_queues_where_patterns_cross_are_told(one: str, other: str, like: str | None) -> None:
    own, everything = "<individualDeadLetterStrategy/>", '<policyEntry queue=">"/>'
    crossing = notes(policies(everything, letters(one, own), f'<policyEntry queue="{other}"/>'))
    assert [note.partition(",")[0] for note in crossing] == ([f"queues like {like}"] if like else [])
    assert notes(policies(everything, letters(one, own), letters(other, own))) == []


def test_what_becomes_of_an_expired_dead_letter_and_of_a_send_to_a_shared_name_is_told() -> None:
    queue = "<deadLetterQueue><queue physicalName='Lost'/></deadLetterQueue>"
    strategy = f"<sharedDeadLetterStrategy expiration='5000'>{queue}</sharedDeadLetterStrategy>"
    told = {one.setting: one.note for one in read(policies(letters("a", strategy))).findings}
    assert "dropped and counted" in told["expiration"]
    assert "do not send to this name" in told["deadLetterQueue"]
