"""What the last runs have seen: a file of data beside each broker, and the page that is made of all.

`python -m tests.proofs.live_brokers --write` writes them. `results/KEY.yaml` has each scenario with what both
sides did; docs/live-brokers.md has the counts, and the reasons of what differs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from tests.checkout import ROOT
from tests.proofs.live_brokers.brokers import BROKERS
from tests.proofs.live_brokers.table import Part, counted

PAGE = ROOT / "docs" / "live-brokers.md"
FOLDER = Path(__file__).parent / "results"
BEGIN, END = "<!-- results -->\n", "<!-- end of results -->\n"
FIRST = "# Written by `python -m tests.proofs.live_brokers --write`.\n"

Result: TypeAlias = Mapping[str, Any]
"""Of the runs beside one broker, as `Part.as_data`."""


def write(parts: Iterable[Part]) -> None:
    """Write the results beside these brokers, and the page."""
    for part in parts:
        (FOLDER / f"{part.key}.yaml").write_text(as_text(part.as_data()), "utf-8")
    PAGE.write_text(with_results(PAGE.read_text("utf-8"), read().values()), "utf-8")


def as_text(result: Result) -> str:
    """As the file has it."""
    return FIRST + yaml.safe_dump(result, sort_keys=False, allow_unicode=True, width=110)


def read() -> dict[str, Result]:
    """The results of the files, by the key of the broker."""
    return {
        broker.key: yaml.safe_load((FOLDER / f"{broker.key}.yaml").read_text("utf-8")) for broker in BROKERS
    }


def with_results(text: str, results: Iterable[Result]) -> str:
    """The page with these results in the place of those that it has."""
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    return f"{before}{BEGIN}\n{''.join(chapters(results))}{END}{after}"


def chapters(results: Iterable[Result]) -> Iterator[str]:
    """The counts beside each broker, and a row for each scenario that is not the same."""
    for result in results:
        rows = result["rows"]
        yield f"## {result['there']}\n\n"
        yield f"{len(rows)} scenarios beside {result['here']}: {counted(row['verdict'] for row in rows)}.\n\n"
        yield "| scenario | | why |\n|---|---|---|\n"
        for row in rows:
            if row["verdict"] != "same":
                cells = (row[name].replace("|", "\\|") for name in ("about", "verdict", "why"))
                yield f"| {' | '.join(cells)} |\n"
        yield "\n"
