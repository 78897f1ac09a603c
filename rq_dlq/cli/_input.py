"""Messages from a file or a pipe: lines of text, JSON lines or CSV, each with its line number."""

from __future__ import annotations

import csv
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, TextIO, TypeAlias

import msgspec

from rq_dlq.errors import InvalidInput, InvalidMessage
from rq_dlq.values.codec import NO_JSON
from rq_dlq.values.readable import many

NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,14})(\.[0-9]{1,15})?")
IN_MEMORY = 8 << 20  # bytes; a longer pipe goes to a temporary file
Parsed: TypeAlias = tuple[int, Any]  # the line number, and the body or an InvalidInput
Reader: TypeAlias = Callable[[IO[bytes]], Iterator[Parsed]]


def stdin() -> TextIO:
    """The standard input.

    Raises:
        InvalidInput: it is closed.
    """
    if sys.stdin is None:
        raise InvalidInput("standard input is closed: pass a FILE")
    return sys.stdin


@contextmanager
def opened(path: Path | None) -> Generator[IO[bytes]]:
    """A file, or standard input, which can be read twice: to check every line, then to send."""
    if path is not None:
        with path.open("rb") as file:
            yield file
        return
    with tempfile.SpooledTemporaryFile(max_size=IN_MEMORY) as copy:
        pipe = stdin().buffer
        for chunk in iter(lambda: pipe.read(1 << 16), b""):
            copy.write(chunk)
        copy.seek(0)
        yield copy


def text_lines(file: IO[bytes]) -> Iterator[Parsed]:
    """Each line is a body, as text."""
    return ((number, _text(line)) for number, line in enumerate(file, 1))


def json_lines(file: IO[bytes]) -> Iterator[Parsed]:
    """Each line is a JSON value; empty lines are skipped."""
    for number, line in enumerate(file, 1):
        if not line.isspace():
            yield number, _json(line)


def csv_rows(file: IO[bytes]) -> Iterator[Parsed]:
    """Each row is an object with the names of the first row. A cell is a number, text, or null if empty."""
    rows = csv.reader(_decoded(file), strict=True)
    try:
        names = next(rows, list[str]())
        if twice := [name for name, count in Counter(names).items() if count > 1]:
            yield rows.line_num, InvalidMessage(f"the first row names {twice[0]!r} twice")
            return
        for row in rows:
            if not row:
                continue
            if len(row) == len(names):
                yield rows.line_num, dict(zip(names, map(_cell, row), strict=True))
            else:
                wrong = f"{many(len(row), 'cell')}, but the first row has {len(names)}"
                yield rows.line_num, InvalidMessage(wrong)
    except (csv.Error, UnicodeDecodeError) as error:  # the start of the next row is unknown
        yield rows.line_num, InvalidMessage(f"not CSV: {error}")


READERS: Mapping[str, Reader] = {"text": text_lines, "jsonl": json_lines, "csv": csv_rows}


def _text(line: bytes) -> str | InvalidInput:
    try:
        return line.removesuffix(b"\n").removesuffix(b"\r").decode()
    except UnicodeDecodeError as error:
        return InvalidMessage(f"not UTF-8 text: {error.reason} at column {error.start + 1}")


def _json(line: bytes) -> Any:
    try:
        return msgspec.json.decode(line)
    except NO_JSON as error:
        return InvalidMessage(f"not JSON: {error}")


def _cell(text: str) -> str | float | None:
    if not text:
        return None
    number = NUMBER.fullmatch(text)
    if number is None:
        return text
    return float(text) if number[2] else int(text)


def _decoded(file: Iterable[bytes]) -> Iterator[str]:
    for number, line in enumerate(file):
        yield line.decode("utf-8-sig" if number == 0 else "utf-8")  # spreadsheets write a byte order mark
