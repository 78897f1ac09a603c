"""What an archive remembers from run to run: a small JSON file, replaced as a whole when all else is done."""

from __future__ import annotations

import fcntl
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from rq_dlq.codec import NO_JSON
from rq_dlq.durations import shown
from rq_dlq.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping
    from pathlib import Path

NAME = "manifest.json"


class Kind(msgspec.Struct, frozen=True, order=True):
    """A kind of failure, as the report on dead letters tells them apart."""

    queue: str | None
    fingerprint: str | None
    reason: str | None


class Known(msgspec.Struct, frozen=True):
    """A kind, and the run that saw it first."""

    kind: Kind
    first_run: int


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What was archived so far.

    Attributes:
        url: of the server, without its password.
        runs: how many there were.
        last_events: by queue, the id of the last event in the archive.
        kinds: those seen so far.
    """

    url: str
    namespace: str
    format: str
    runs: int = 0
    last_events: dict[str, str] = {}
    kinds: tuple[Known, ...] = ()

    @classmethod
    def read(cls, folder: Path, *, url: str, namespace: str, form: str) -> Manifest:
        """The manifest of a directory; where there is none, that of an empty archive.

        Raises:
            InvalidInput: it is damaged, or of another server, namespace or format.
        """
        path = folder / NAME
        if not path.exists():
            return cls(url=url, namespace=namespace, format=form)
        try:
            manifest = msgspec.json.decode(path.read_bytes(), type=cls)
        except NO_JSON as error:
            message = f"{path} is damaged ({error}): bring it back from a copy, or pass another directory"
            raise InvalidInput(message) from None
        for name, asked in (("url", url), ("namespace", namespace), ("format", form)):
            if (has := getattr(manifest, name)) != asked:
                message = (
                    f"{folder} is the archive of {name} {shown(has)}, not {shown(asked)}: pass another "
                    f"directory; if it is the same under a new name, change {name} in {path}"
                )
                raise InvalidInput(message)
        return manifest

    def after(self, last_events: Mapping[str, str], first_runs: Mapping[Kind, int]) -> Manifest:
        """The manifest after one more run."""
        kinds = tuple(Known(kind, run) for kind, run in sorted(first_runs.items(), key=repr))
        events = dict(sorted({**self.last_events, **last_events}.items()))
        return msgspec.structs.replace(self, runs=self.runs + 1, last_events=events, kinds=kinds)

    def write(self, folder: Path) -> None:
        """Put it in the place of the one before."""
        new = folder / f"{NAME}.new"
        new.write_bytes(msgspec.json.format(msgspec.json.encode(self)) + b"\n")
        new.replace(folder / NAME)

    def first_run(self) -> dict[Kind, int]:
        """By kind: the run that saw it first."""
        return {known.kind: known.first_run for known in self.kinds}


@contextmanager
def held(folder: Path) -> Generator[None]:
    """Keep other runs out of a directory, which is made where there is none.

    Raises:
        InvalidInput: it cannot be written, or another run is at work.
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
            message = f"another run is at work in {folder}: wait for its end, or pass another directory"
            raise InvalidInput(message) from None
        yield
