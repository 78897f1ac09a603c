"""What a power cut leaves of a server's files."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path

from tests.proofs.reliability import shims


@dataclass
class Disk:
    """What of a server's files has reached the disk, as the shim notes it."""

    directory: Path
    seed: int
    notes: Path = field(init=False)

    def __post_init__(self) -> None:
        self.notes = self.directory / "synced"
        self.environment = {
            "LD_PRELOAD": shims.built("disk", self.directory),
            "SYNCED": str(self.notes),
        }
        self._random = random.Random(self.seed)

    def cut(self) -> int:
        """Cut every file back to what is sure to be there and, by chance, some of the rest; bytes lost."""
        synced: dict[Path, int] = {}
        for line in self.notes.read_text().splitlines() if self.notes.exists() else ():
            size, _, name = line.partition(" ")
            synced[Path(name)] = int(size)
        lost = 0
        for path in self.directory.rglob("*.aof"):
            written = path.stat().st_size
            kept = self._random.randint(min(synced.get(path, 0), written), written)
            with path.open("r+b") as file:
                file.truncate(kept)
            lost += written - kept
            with self.notes.open("a") as notes:  # what the server finds there has reached the disk
                notes.write(f"{kept} {path}\n")
        return lost
