"""Periodic checks of the server: before a worker claims, and while it works."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from rq_dlq.doctor.check import Check, State, of_all
from rq_dlq.doctor.examine import changing
from rq_dlq.doctor.facts import read_facts
from rq_dlq.doctor.trials import clock
from rq_dlq.doctor.versions import version
from rq_dlq.errors import RqDlqError
from rq_dlq.values.durations import Duration, milliseconds

if TYPE_CHECKING:
    from rq_dlq._redis import Connections
    from rq_dlq.client.settings import BrokerSettings
    from rq_dlq.core.steps.step import Steps

logger = logging.getLogger("rq_dlq.doctor")
LEVELS = {"warn": logging.WARNING, "fail": logging.ERROR}


class Watch:
    """Logs each failure or warning once, again when it changes, and once when it ends.

    It does not warn of effects of the broker's settings: losses in a crash with durability "memory", and
    eviction with `require_noeviction` off. If no other user can reach the server, it does not warn of flaws
    of the release.

    Args:
        settings: the broker's settings, with its durability.
        period: the time between two checks.
        private: the server is the embedded one, which only this user can reach.

    Raises:
        InvalidDuration: the period is not valid.
    """

    def __init__(self, settings: BrokerSettings, period: Duration, *, private: bool = False) -> None:
        self._settings = settings
        self._period = milliseconds(period, name="checkup", minimum=10) / 1000
        self._looked = float("-inf")
        self._with_config = settings.durability != "memory"
        self._passed_over = {*_chosen(settings), *(["version"] if private else [])}
        self._bad: dict[str, set[tuple[str, State, str]]] = {}

    def look(self, connections: Connections) -> None:
        """Check the server if the period has passed."""
        if time.monotonic() - self._looked < self._period:
            return
        self._looked = time.monotonic()
        try:
            by_node = connections.everywhere(self._checks)
        except RqDlqError as error:  # the consumers also notice and log it
            logger.debug("cannot check the server: %s", error)
            return
        self._note(by_node)

    def _checks(self) -> Steps[list[Check]]:
        """The quick checks: INFO and TIME. They need no rights beyond those of a role."""
        facts = yield from read_facts(with_config=self._with_config)
        if facts.config is None and self._settings.durability == "replicated":
            self._with_config = False  # the server logs each refusal in its ACL LOG
        return [version(facts), *changing(facts, self._settings), (yield from clock())]

    def _note(self, by_node: Mapping[str, Sequence[Check]]) -> None:
        bad: dict[str, set[tuple[str, State, str]]] = {}
        for node, checks in by_node.items():
            for check in filter(self._is_bad, checks):
                bad.setdefault(check.name, set()).add((node, check.state, check.advice))
        new = {name for name, verdicts in bad.items() if verdicts - self._bad.get(name, set())}
        _say(check for check in of_all(by_node) if check.name in new)
        for name in self._bad.keys() - bad.keys():
            logger.warning("%s: ok again", name)
        self._bad = bad

    def _is_bad(self, check: Check) -> bool:
        return check.state == "fail" or (check.state == "warn" and check.name not in self._passed_over)


def _chosen(settings: BrokerSettings) -> Iterator[str]:
    """The checks whose warnings a setting has accepted."""
    if settings.durability == "memory":
        yield from ("persistence", "min-replicas")
    if not settings.require_noeviction:
        yield "eviction"


def _say(checks: Iterator[Check]) -> None:
    """Log one line for all checks with the same result."""
    names: dict[tuple[State, str, str], list[str]] = {}
    for check in checks:
        names.setdefault((check.state, check.found, check.advice), []).append(check.name)
    for (state, found, advice), same in names.items():
        logger.log(LEVELS[state], "%s: %s (%s)", ", ".join(same), found, advice)
