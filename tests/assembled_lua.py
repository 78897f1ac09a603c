"""The Lua scripts as Redis gets them: checked by luacheck, kept as golden text, so that a change is reviewed.

python -m tests.assembled_lua            luacheck on all of them, where it is installed
python -m tests.assembled_lua --write    first write the golden text anew
python -m tests.assembled_lua DIRECTORY  first write them there, to look at
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from rq_dlq._scripts import Scripts

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests" / "scripts" / "golden"
REFRESH = "python -m tests.assembled_lua --write"


def fragments(directory: Path = ROOT / "lua") -> list[Path]:
    """The scripts and their fragments; without the modules of the library (`lua/broker`)."""
    return sorted(file for file in directory.rglob("*.lua") if file.parent.name != "broker")


def assembled() -> dict[str, str]:
    """Every script's text, by its name."""
    scripts = Scripts()
    return {name: scripts[name].source for name in scripts.names()}


def write(directory: Path) -> None:
    """Write every script there, and remove what is no script any more."""
    directory.mkdir(parents=True, exist_ok=True)
    texts = assembled()
    for old in directory.glob("*.lua"):
        if old.stem not in texts:
            old.unlink()
    for name, text in texts.items():
        (directory / f"{name}.lua").write_text(text, encoding="utf-8")


def luacheck(directory: Path) -> subprocess.CompletedProcess[str] | None:
    """What luacheck says of the scripts in a directory; None: it is not installed."""
    program = shutil.which("luacheck")
    if program is None:
        return None
    command = [program, "--no-color", "--config", str(ROOT / ".luacheckrc"), str(directory)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def main(arguments: list[str]) -> int:
    """The command line."""
    anew = arguments == ["--write"]
    if len(arguments) > 1 or not (anew or all(Path(argument).is_dir() for argument in arguments)):
        sys.stderr.write(f"{__doc__}\n")
        return 2
    with tempfile.TemporaryDirectory() as scratch:
        directory = GOLDEN if anew else Path(arguments[0] if arguments else scratch)
        write(directory)
        checked = luacheck(directory)
    if checked is None:
        sys.stdout.write("luacheck is not installed (Debian: lua-check): the scripts are not checked\n")
        return 0
    sys.stdout.write(checked.stdout + checked.stderr)
    return checked.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
