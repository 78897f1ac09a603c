"""What a setting of a queue costs: instructions of redis-server for a claim and its ack, beside none of them.

Callgrind counts them, so other programs change nothing. 300 messages wait behind those that are taken.

    python -m tests.benchmarks.settings                # the table of docs/performance.md
    python -m tests.benchmarks.settings results order --size 1
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

from rq_dlq.core.settling import calls as settling_calls
from tests import servers
from tests.benchmarks.instructions import NO_VALGRIND, Counted, counted
from tests.conftest import MOVED_CLOCK, Clock
from tests.model.driver import Driver

WAITING = 300
MESSAGES = {1: 20, 100: 200}  # that are counted, by the size of a claim
WARM = {1: 5, 100: 100}  # that are not
KEYS = 100
SENT = 100  # at once


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting, and messages that it is for.

    Attributes:
        words: in the table.
        settings: of the queue, as Redis has them.
        keyed: the messages have keys, a hundred in turn.
        results: each ack has a result.
    """

    words: str
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    keyed: bool = False
    results: bool = False


SETTINGS = {
    "none": Setting("none of them"),
    "outcomes": Setting("`outcomes=10_000`", {"outcomes": "10000"}),
    "results": Setting('`results="1h"`, a result of 20 bytes', {"results": "3600000"}, results=True),
    "order": Setting("`PerKey(order=True)`, 100 keys", {"per_key": "order"}, keyed=True),
    "limit": Setting("`PerKey(limit=2)`, 100 keys", {"per_key": "limit 2"}, keyed=True),
    "fair": Setting("`PerKey(fair=True)`, 100 keys", {"per_key": "fair 4"}, keyed=True),
    "rate": Setting('`PerKey(rate="1000/s")`, 100 keys', {"per_key": "rate 1000/s"}, keyed=True),
}


def measured(server: Counted, setting: Setting, size: int) -> float:
    """The instructions for each message of claims of this size and of their acks."""
    server.raw.flushall()
    clock, names = Clock(server.raw), [f"m{n}" for n in range(WAITING + MESSAGES[size] + WARM[size])]
    key_of = {name: f"key-{n % KEYS}" for n, name in enumerate(names)} if setting.keyed else {}
    driver = Driver(server.raw, verbs=MOVED_CLOCK, key_of=key_of)
    driver.run(driver.configure_call({"redelivery": driver.wire.decode(), **setting.settings}))
    for n in range(0, len(names), SENT):
        driver.run(driver.send_call(*((name, 4) for name in names[n : n + SENT])))
    taken = 0

    def take(messages: int) -> None:
        """Claim and ack so many."""
        nonlocal taken
        until = taken + messages
        while taken < until:
            clock.advance("1ms")  # the rate of each key allows for one; and little is due by the clock
            token = f"token-{taken:020}"
            found = [(row.id, token) for row in driver.run(driver.claim_call(token, size)).rows]
            given = {name: b'"0123456789 01234567"' for name, _ in found} if setting.results else {}
            taken += len([said for said in driver.run(settling_calls.ack(driver.keys, found, given)) if said])

    take(WARM[size])
    before = taken
    return server.count_while(lambda: take(MESSAGES[size])) / (taken - before)


def main(given: list[str] | None = None) -> None:
    """Count, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", help=f"of {' '.join(SETTINGS)}")
    parser.add_argument("--size", type=int, action="append", choices=MESSAGES, help="of a claim")
    options = parser.parse_args(given)
    if not shutil.which("valgrind"):
        sys.exit(NO_VALGRIND)
    sizes = options.size or [*MESSAGES]
    print("|", " | ".join(["setting", *(f"claims of {size}" for size in sizes)]), "|")
    print("|---|", "---:|" * len(sizes), sep="")
    plain: dict[int, float] = {}
    with counted(servers.needed()) as server:
        for name in ["none", *(options.names or [one for one in SETTINGS if one != "none"])]:
            cells = [SETTINGS[name].words]
            for size in sizes:
                found = measured(server, SETTINGS[name], size)
                plain.setdefault(size, found)
                ratio = f" ({found / plain[size]:.1f})" if name != "none" else ""
                cells.append(f"{found:,.0f}{ratio}")
            print("|", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()
