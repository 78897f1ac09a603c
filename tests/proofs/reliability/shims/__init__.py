"""What is loaded into a process in front of libc, so that its disk or its clock fails."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Literal

from tests import needs

SOURCES = Path(__file__).parent


def missing() -> str:
    """Why there are none here; empty where there are."""
    if not sys.platform.startswith("linux"):
        return "shims are loaded by LD_PRELOAD, which only Linux has"
    return needs.missing("gcc")


def built(name: Literal["disk", "clock"], directory: Path) -> str:
    """Compile one; where it is then, for LD_PRELOAD."""
    target = directory / f"{name}.so"
    source = str(SOURCES / f"{name}.c")
    flags = ["-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror"]
    subprocess.run(["gcc", *flags, "-o", str(target), source, "-ldl"], check=True)
    return str(target)
