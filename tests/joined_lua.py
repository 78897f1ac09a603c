"""The text that Redis gets, joined of the modules in `lua`; checked by luacheck, and the width of its lines.

python -m tests.joined_lua             run both, luacheck where it is installed
python -m tests.joined_lua FILE        write the text there, to read it
python -m tests.joined_lua --line 812  which line of a module is this line, of an error of Redis

luacheck reads the whole text, so it finds a local that nobody uses. It reads each module alone, too, with the
names of the module as globals: no function may assign one, for nothing that changes outlives a call.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from rq_dlq._scripts.joining import GLOBALS, join
from tests.checkout import MODULES, ROOT

if TYPE_CHECKING:
    from rq_dlq._scripts.verb import Library

FINDING = re.compile(r"^ *\S*/(\w+)\.lua:(\d+):\d+: (.*)", re.MULTILINE)
NOT_THERE = "luacheck is not installed (Debian: lua-check): the Lua is not checked\n"
WIDEST = 124  # characters of a line


def texts() -> dict[str, str]:
    """The modules, by their names."""
    return {name: file.read_text(encoding="utf-8") for name, file in MODULES.items()}


def library() -> Library:
    """What is joined of them."""
    return join(texts())


def found_in_text(joined: Library) -> list[str]:
    """What luacheck finds in the text, by modules and their lines; it has to see globals as such."""
    text = re.sub(f".*{GLOBALS}.*", "", joined.text)
    findings = _luacheck({"joined": text}, "--config", str(ROOT / ".luacheckrc"))
    return [f"{joined.place(line + 1)}: {said}" for _, line, said in findings]  # a first line comes before it


def assigned_in_functions(modules: Mapping[str, str]) -> list[str]:
    """The names that outlive a call and that a function assigns, by modules and their lines; by luacheck."""
    lines = {name: re.sub(r"^local ", "", text, flags=re.MULTILINE) for name, text in modules.items()}
    findings = _luacheck(lines, "--no-config", "--std", "lua51", "--only", "11[12]", "12[12]")
    return [
        f"{name}.lua:{line}: {said}"
        for name, line, said in findings
        if lines[name].splitlines()[line - 1].startswith(" ")
    ]


def too_wide(modules: Mapping[str, str]) -> list[str]:
    """The lines with more than WIDEST characters, or blanks at their ends."""
    return [
        f"{name}.lua:{n}: {len(line)} characters"
        for name, text in modules.items()
        for n, line in enumerate(text.splitlines(), 1)
        if len(line) > WIDEST or line != line.rstrip()
    ]


def _luacheck(files: Mapping[str, str], *options: str) -> Iterator[tuple[str, int, str]]:
    """The file, the line and the words of each finding."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            Path(folder, f"{name}.lua").write_text(text, encoding="utf-8")
        command = ["luacheck", "--no-color", "--no-max-line-length", *options, "--", folder]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
    findings = FINDING.findall(ran.stdout)
    if ran.returncode > 1 or (bool(ran.returncode) > bool(findings) and "--only" not in options):
        raise RuntimeError(ran.stdout + ran.stderr)
    for name, line, said in findings:
        yield name, int(line), said


def checked() -> Iterator[str]:
    """What is wrong with the Lua, a line each."""
    if shutil.which("luacheck"):
        yield from found_in_text(library())
        yield from assigned_in_functions(texts())
    yield from too_wide(texts())


def main(arguments: list[str]) -> int:
    """The command line."""
    match arguments:
        case []:
            if shutil.which("luacheck") is None:
                sys.stdout.write(NOT_THERE)
            wrong = [*checked()]
            sys.stdout.write("".join(f"{line}\n" for line in wrong))
            return bool(wrong)
        case ["--line", number] if number.isdecimal():
            sys.stdout.write(f"{library().place(int(number)) or 'in no module'}\n")
        case [file] if not file.startswith("-"):
            Path(file).write_text(library().text, encoding="utf-8")
        case _:
            sys.stderr.write(f"{__doc__}\n")
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
