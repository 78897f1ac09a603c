"""Policies read from files: our own (TOML), ActiveMQ Artemis' broker.xml, ActiveMQ Classic's activemq.xml.

A reader does no I/O. It converts text to entries, reports the equivalent of each setting in the file, and
lists the problems. The caller sets all entries of a file, or none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rq_dlq.policy_files import activemq, artemis
from rq_dlq.policy_files._other_files import other_file
from rq_dlq.policy_files._reading import Conversion, Finding, Problem, Reading
from rq_dlq.policy_files._xml import INCLUDE, read_xml
from rq_dlq.policy_files.toml import read as read_toml

if TYPE_CHECKING:
    from rq_dlq.policy_files._xml import Element

__all__ = ["Conversion", "Finding", "Problem", "Reading", "read_broker_xml", "read_toml"]


def read_broker_xml(data: bytes, renamed: Mapping[str, str] | None = None) -> Reading:
    """The policies of Artemis' broker.xml or Classic's activemq.xml, by the kind of file.

    Args:
        data: the file's content.
        renamed: new names or patterns, by the names in the file.

    Returns:
        The entries, or the problems of the file.
    """
    if not data.lstrip().startswith(b"<") and (what := other_file(data)):
        return Reading(problems=[Problem(1, "", what)])
    root = read_xml(data)
    if isinstance(root, Problem):
        return Reading(problems=[root])
    if included := [_not_read(element) for element in root.named(INCLUDE)]:
        return Reading(problems=included)
    if root.name in artemis.ROOTS:
        return artemis.read(root, renamed or {})
    if root.name in activemq.ROOTS:
        return activemq.read(root, renamed or {})
    return Reading(problems=[Problem(root.line, root.name, _why_not(root))])


def _why_not(root: Element) -> str:
    """The reason why a file of another kind is not read."""
    if root.named("subsystem") and root.named("address-setting"):
        return (
            "a WildFly configuration is not supported: put its <address-setting> elements into a broker.xml"
        )
    return (
        f"<{root.name}> is neither Artemis' <configuration> (broker.xml) nor Classic's <beans> or <broker> "
        "(activemq.xml)"
    )


def _not_read(include: Element) -> Problem:
    """The problem that an `xi:include` is not read, although its file is part of this one."""
    where = include.attributes.get("href", "another file")
    message = (
        f"its settings are in {where}, which is not read: put them into a copy of this file, and import the "
        "copy"
    )
    return Problem(include.line, "include", message)
