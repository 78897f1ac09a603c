"""XML that is none, or that must not be read."""

from __future__ import annotations

from rq_dlq.policy_files import read_broker_xml
from tests.call_counts import growth
from tests.tables import each_row

LAUGHS = """<?xml version="1.0"?>
<!DOCTYPE core [
  <!ENTITY a "ha">
  <!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">
]>
<core>&b;</core>
"""
OUTSIDE = '<!DOCTYPE core [<!ENTITY x SYSTEM "file:///etc/passwd">]><core>&x;</core>'


@each_row(
    "text, line, message",
    [
        ("", 1, "not XML: no element found"),
        ("hello", 1, "not XML: syntax error"),
        (' {"jetstream": {}}', 1, "JSON: a NATS configuration is not supported; see docs/migrating.md"),
        ("<core>\n<a>\n</core>", 3, "not XML: mismatched tag"),
        ("<core>\n&nope;</core>", 2, "not XML: undefined entity"),
        ("<core/>\n<core/>", 2, "not XML: junk after document element"),
        (LAUGHS, 2, "it has a DOCTYPE"),
        (OUTSIDE, 1, "it has a DOCTYPE"),
        ("<!DOCTYPE core>\n<core/>", 1, "it has a DOCTYPE"),
        ("<a>" * 5_000, 1, "nested deeper than 100 levels"),
        ("<?xml version='1.0' encoding='klingon'?><core/>", 1, "not XML"),
        ("<html/>", 1, "<html> is neither Artemis' <configuration> (broker.xml) nor Classic's"),
    ],
)
def test_it_is_refused(text: str, line: int, message: str) -> None:
    reading = read_broker_xml(text.encode())
    (problem,) = reading.problems
    assert problem.line == line
    assert message in problem.message
    assert reading.entries == {}


FEDERATION = (
    '<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core"><address-settings>'
    '<address-setting match="orders.#"><max-delivery-attempts>4</max-delivery-attempts></address-setting>'
    '</address-settings><federations><federation name="eu"><queue-policy name="q">'
    '<include queue-match="#" address-match="orders.#"/></queue-policy></federation></federations>'
    "</core></configuration>"
)


def test_an_include_of_the_broker_s_own_is_no_other_file() -> None:
    reading = read_broker_xml(FEDERATION.encode())
    assert reading.problems == []
    assert list(reading.entries) == ["orders.#"]


@each_row(
    "text, what",
    [
        (
            'addressSettings."orders.#".maxDeliveryAttempts=4\n',
            "Artemis' broker properties are not supported",
        ),
        (
            "# ours\naddressConfigurations.orders.queueConfigs=a\n",
            "Artemis' broker properties are not supported",
        ),
        ("spring:\n  activemq:\n    broker-url: tcp://a\n", "YAML is not supported"),
        ("# ours\n---\nkind: List\n", "YAML is not supported"),
        ("apiVersion: broker.amq.io/v1beta1\nkind: ActiveMQArtemis\n", "of the ActiveMQ Artemis operator"),
        ("port: 4222\nstreaming: {\n  cluster_id: shop\n}\n", "NATS Streaming is not supported: AckWait and"),
        ("port: 4222\njetstream {\n}\n", "a configuration of NATS is not supported"),
        (
            '<server><subsystem><address-setting name="#" max-delivery-attempts="4"/></subsystem></server>',
            "a WildFly configuration is not supported",
        ),
    ],
)
def test_another_file_is_named_for_what_it_is(text: str, what: str) -> None:
    (problem,) = read_broker_xml(text.encode()).problems
    assert what in problem.message


INCLUDE = '<xi:include xmlns:xi="http://www.w3.org/2001/XInclude" href="{}.xml"/>'


@each_row(
    "text",
    [
        "<core>\n{0}\n{1}<address-settings><address-setting match='a'/></address-settings></core>",
        "<core><address-settings>\n{0}<address-setting match='a'/>\n{1}</address-settings></core>",
        "<address-settings><address-setting match='a'>\n{0}\n{1}</address-setting></address-settings>",
        "<broker><destinationPolicy>\n{0}</destinationPolicy>\n{1}</broker>",
        "<plugins>\n{0}\n{1}<redeliveryPlugin/></plugins>",
    ],
)
def test_other_files_are_not_left_out_in_silence(text: str) -> None:
    reading = read_broker_xml(text.format(INCLUDE.format("one"), INCLUDE.format("two")).encode())
    assert reading.entries == {}
    assert [(problem.line, problem.setting) for problem in reading.problems] == [
        (2, "include"),
        (3, "include"),
    ]
    assert ["its settings are in" in problem.message for problem in reading.problems] == [True, True]
    assert ["one.xml" in problem.message for problem in reading.problems] == [True, False]


@each_row("encoding", ["utf-8-sig", "utf-16", "iso-8859-1"])
def test_encodings(encoding: str) -> None:
    text = "<core><address-setting\n match='größe'><no-expiry>true</no-expiry></address-setting></core>"
    if encoding == "iso-8859-1":
        text = "<?xml version='1.0' encoding='iso-8859-1'?>" + text
    assert list(read_broker_xml(text.encode(encoding)).entries) == ["größe"]


def test_bytes_that_are_no_text_are_refused() -> None:
    (problem,) = read_broker_xml(b"<core>\n\xff\xfe</core>").problems
    assert problem.line == 2
    assert "not XML" in problem.message


ARTEMIS = "<core><address-settings>{}</address-settings></core>"
CLASSIC = """<broker><policyEntries>{}</policyEntries>
<redeliveryPlugin fallbackToDeadLetter="false" sendToDlqIfMaxRetriesExceeded="false">
<redeliveryPolicyEntries>{}</redeliveryPolicyEntries></redeliveryPlugin></broker>"""


@each_row(
    "file, element",
    [
        (ARTEMIS, "<x/>"),
        (ARTEMIS, '<address-setting match="q{}"/>'),
        (ARTEMIS, '<address-setting match="q{}.#"/>'),
        (CLASSIC, '<policyEntry queue="q{}"/>'),
        (CLASSIC, '<policyEntry queue="q{}.&gt;"/>'),
    ],
)
def test_the_work_grows_with_the_file_and_not_faster(file: str, element: str) -> None:
    def read(number: int) -> None:
        elements = "".join(element.format(n) for n in range(number))
        read_broker_xml(file.format(elements, elements.replace("policyEntry", "redeliveryPolicy")).encode())

    assert growth(read, 50) < 6
