"""Files of brokers that are no XML, and are not read: what they are, and what to do with them."""

from __future__ import annotations

import re
from typing import Final

OPERATOR: Final = "a resource of the ActiveMQ Artemis operator is not read: import the broker.xml of its pod"
PROPERTIES: Final = (
    "Artemis' broker properties are not read: put them into a broker.xml, as <address-setting>"
)
STREAMING: Final = (
    "a configuration of NATS Streaming is not read: AckWait and MaxInflight are its clients', and its limits "
    "have no counterpart; see docs/migrating.md"
)
NATS: Final = (
    "a configuration of NATS is not read: AckWait, MaxDeliver and BackOff are those of consumers; "
    "see docs/migrating.md"
)
KINDS: Final = (
    (rb"\s*\{", "JSON: a NATS configuration is not read; see docs/migrating.md"),
    (rb"(?s).*^\s*(?:kind:\s*ActiveMQArtemis|apiVersion:\s*broker\.amq\.io)", OPERATOR),
    (rb"(?s).*^\s*address(?:Settings|Configurations|es)\.", PROPERTIES),
    (rb"(?s).*^\s*streaming\s*[:={]", STREAMING),
    (rb"(?s).*^\s*(?:jetstream|server_name|leafnodes|cluster|port)\s*[:={]", NATS),
)
"""By how the file begins, or one of its lines does."""


def other_file(data: bytes) -> str | None:
    """What a file is that is no XML, and what to do; None: it is not known."""
    return next((what for form, what in KINDS if re.match(form, data, re.MULTILINE)), None)
