"""What an archive remembers from run to run: a small JSON file, replaced as a whole at the end of a run."""

from __future__ import annotations

import fcntl
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from rq_dlq.errors import InvalidInput
from rq_dlq.values.codec import NO_JSON
from rq_dlq.values.durations import shown

NAME = "manifest.json"


class Kind(msgspec.Struct, frozen=True, order=True):
    """A kind of failure, as in the report on dead letters."""

    queue: str | None
    fingerprint: str | None
    reason: str | None


class Known(msgspec.Struct, frozen=True):
    """A kind, and the run that saw it first."""

    kind: Kind
    first_run: int


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The state of an archive.

    Attributes:
        url: of the server, without its password.
        runs: their number so far.
        last_events: by queue, the id of the last archived event.
        kinds: all kinds seen so far.
    """

    url: str
    namespace: str
    format: str
    runs: int = 0
    last_events: dict[str, str] = {}
    kinds: tuple[Known, ...] = ()

    @classmethod
    def read(cls, folder: Path, *, url: str, namespace: str, form: str) -> Manifest:
        """The manifest of a directory; if there is none, that of an empty archive.

        Raises:
            InvalidInput: it is damaged, or belongs to another server, namespace or format.
        """
        path = folder / NAME
        if not path.exists():
            return cls(url=url, namespace=namespace, format=form)
        try:
            manifest = msgspec.json.decode(path.read_bytes(), type=cls)
        except NO_JSON as error:
            message = f"{path} is damaged ({error}): restore it from a backup, or pass another directory"
            raise InvalidInput(message) from None
        for name, asked in (("url", url), ("namespace", namespace), ("format", form)):
            if (has := getattr(manifest, name)) != asked:
                raise InvalidInput(
                    f"{folder} is the archive of {name} {shown(has)}, not {shown(asked)}: pass another "
                    f"directory. If both are the same, change {name} in {path}"
                )
        return manifest

    def after(self, last_events: Mapping[str, str], first_runs: Mapping[Kind, int]) -> Manifest:
        """The manifest after one more run."""
        kinds = tuple(Known(kind, run) for kind, run in sorted(first_runs.items(), key=repr))
        events = dict(sorted({**self.last_events, **last_events}.items()))
        return msgspec.structs.replace(self, runs=self.runs + 1, last_events=events, kinds=kinds)

    def write(self, folder: Path) -> None:
        """Replace the manifest of a directory."""
        new = folder / f"{NAME}.new"
        new.write_bytes(msgspec.json.format(msgspec.json.encode(self)) + b"\n")
        new.replace(folder / NAME)

    def first_run(self) -> dict[Kind, int]:
        """The run that saw a kind first, by kind."""
        return {known.kind: known.first_run for known in self.kinds}


@contextmanager
def held(folder: Path) -> Generator[None]:
    """Keep other runs out of a directory, which is created if it is missing.

    Raises:
        InvalidInput: it cannot be written, or another run uses it.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock: Any = (folder / ".lock").open("w")
    except OSError as error:
        message = f"{folder} cannot be written ({error.strerror}): pass a directory that can"
        raise InvalidInput(message) from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            message = f"another run uses {folder}: wait for its end, or pass another directory"
            raise InvalidInput(message) from None
        yield
