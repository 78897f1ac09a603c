"""The joined text and the contracts as a wheel carries them, so that a process need not join."""

from __future__ import annotations

import json
from importlib import resources

from rq_dlq._scripts.verb import Contract, Library

TEXT, CONTRACTS = "library.lua", "contracts.json"  # beside this file
LISTS = ("keys", "args", "items", "families")


def read() -> Library | None:
    """What the package carries; None: this is a checkout."""
    folder = resources.files("rq_dlq") / "_scripts"
    if not (folder / TEXT).is_file():
        return None
    found = json.loads((folder / CONTRACTS).read_text(encoding="utf-8"))
    for cells in found["verbs"]:
        cells |= {name: tuple(cells[name]) for name in LISTS}
        cells["commands"] = frozenset(map(str.encode, cells["commands"]))
    verbs = {cells["name"]: Contract(**cells) for cells in found["verbs"]}
    return Library(found["name"], (folder / TEXT).read_text(encoding="utf-8"), verbs)


def written(library: Library) -> dict[str, str]:
    """The texts of the files, by their names."""
    verbs = [
        {**vars(contract), "commands": sorted(map(bytes.decode, contract.commands))}
        for contract in library.verbs.values()
    ]
    return {TEXT: library.text, CONTRACTS: json.dumps({"name": library.name, "verbs": verbs})}
