"""A scenario: a name to ask for it by, and a function that makes its trials."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.proofs.spark_chaos.world import World


@dataclass(frozen=True, slots=True)
class Scenario:
    """What is tried, and what is promised.

    Attributes:
        promise: beside 0 lost and 0 duplicated.
        redis: options of its server.
    """

    name: str
    what: str
    promise: str
    run: Callable[[World], None]
    redis: tuple[str, ...] = ()
