"""The blocking colour, made from the awaiting one: the same code and the same docs, without `await`.

python -m tests.colours_twin            which files differ from what they are made from
python -m tests.colours_twin --write    make them anew

Words are replaced, in docstrings and comments as well; then ruff drops the imports that nobody uses any more,
and formats. What differs by more than words is written by hand, under the same names, in the `own.py` of each
colour. (The libraries for this do not fit: `unasync` leaves docstrings as they are, `unasyncd` needs an old
version of a package that we need in a new one.)
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REFRESH = "python -m tests.colours_twin --write"
ROOMS = {"rq_dlq/asyncio": "rq_dlq/client", "rq_dlq/_redis/awaiting": "rq_dlq/_redis/blocking"}
BY_HAND = {"__init__.py", "own.py"}
WORDS = [
    (r"\basync (?=with|for)|(?<!`)\basync (?=def)", ""),  # `async def` in prose means itself
    (r"\bawait ", ""),
    (r"\baclos(e|ing)\b", r"clos\1"),
    (r"\b__a(enter|exit)__", r"__\1__"),
    (r"\buninterrupted\((.*)\)", r"\1"),  # nobody cancels a thread
    (r"\brq_dlq\.asyncio\b", "rq_dlq.client"),
    (r"\bin one event loop at a time\b", "safe with threads and after a fork"),
    (r"\bawaiting\b", "blocking"),
    (r"\bAWAITING\b", "BLOCKING"),
    (r" or async iterable\b", ""),
    (r" \| AsyncIterable\[T \| Message\[T\]\]", ""),
    (r"\bAsync(?=[A-Z])", ""),
]


def pairs() -> dict[Path, Path]:
    """The files that are made, and what each is made from."""
    return {
        ROOT / blocking / source.name: source
        for room, blocking in ROOMS.items()
        for source in sorted((ROOT / room).glob("*.py"))
        if source.name not in BY_HAND
    }


def blocking(source: Path) -> str:
    """The blocking twin of an awaiting file."""
    origin = source.relative_to(ROOT).as_posix()
    text = source.read_text(encoding="utf-8")
    for word, other in WORDS:
        text = re.sub(word, other, text)
    text = f"# Generated from {origin} by `{REFRESH}`.\n{text}"
    text = ruff("check", "--fix-only", "--quiet", "--select", "F401,I", text=text)
    return ruff("format", "--quiet", text=text)


def ruff(*command: str, text: str) -> str:
    """What ruff makes of a text."""
    arguments = [sys.executable, "-m", "ruff", *command, "--stdin-filename", "rq_dlq/made.py", "-"]
    done = subprocess.run(arguments, input=text, capture_output=True, text=True, check=True, cwd=ROOT)
    return done.stdout


def differing() -> list[Path]:
    """The files that are not what they are made from."""
    return [
        made
        for made, source in pairs().items()
        if not made.exists() or made.read_text(encoding="utf-8") != blocking(source)
    ]


def main(arguments: list[str]) -> int:
    """The command line."""
    if arguments not in ([], ["--write"]):
        sys.stderr.write(f"{__doc__}\n")
        return 2
    for made in (stale := differing()):
        sys.stdout.write(f"{made.relative_to(ROOT)} {'made anew' if arguments else f'differs: {REFRESH}'}\n")
        if arguments:
            made.write_text(blocking(pairs()[made]), encoding="utf-8")
    return 1 if stale and not arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
