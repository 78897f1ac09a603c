"""Recognizes unsupported broker files that are not XML, with advice."""

from __future__ import annotations

import re
from typing import Final

OPERATOR: Final = (
    "a resource of the ActiveMQ Artemis operator is not supported: import the broker.xml of its pod"
)
PROPERTIES: Final = (
    "Artemis' broker properties are not supported: put them into a broker.xml, as <address-setting>"
)
STREAMING: Final = (
    "a configuration of NATS Streaming is not supported: AckWait and MaxInflight are its clients', and its "
    "limits have no counterpart; see docs/migrating.md"
)
NATS: Final = (
    "a configuration of NATS is not supported: AckWait, MaxDeliver and BackOff are those of consumers; "
    "see docs/migrating.md"
)
YAML: Final = "YAML is not supported: import the broker's own file, broker.xml or activemq.xml"
KINDS: Final = (
    (rb"\s*\{", "JSON: a NATS configuration is not supported; see docs/migrating.md"),
    (rb"(?s).*^\s*(?:kind:\s*ActiveMQArtemis|apiVersion:\s*broker\.amq\.io)", OPERATOR),
    (rb"(?s).*^\s*address(?:Settings|Configurations|es)\.", PROPERTIES),
    (rb"(?s).*^\s*streaming\s*[:={]", STREAMING),
    (rb"(?s).*^\s*(?:jetstream|server_name|leafnodes|cluster|port)\s*[:={]", NATS),
    (rb"(?:#.*\n|---|\s)*[\w.-]+:(?:\s|$)", YAML),
)
"""Advice by the beginning of the file, or of one of its lines."""


def other_file(data: bytes) -> str | None:
    """The advice for a file that is not XML; None: it is unknown."""
    return next((what for form, what in KINDS if re.match(form, data, re.MULTILINE)), None)
