"""What is compiled here, or brought by Maven and Go: in a cache, where the next run finds it."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

JAVA, GO = (Path(__file__).parent / language for language in ("java", "go"))
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rq-dlq" / "live-brokers"


class BuildError(Exception):
    """A build failed: the end of what it said."""


def artemis() -> str:
    """The class path of an Artemis, its server and its driver."""
    pom = JAVA / "pom.xml"
    jars = built("artemis", [pom], lambda folder: maven(pom, folder))
    return java(["JmsDriver", "ArtemisDriver", "ArtemisServer"], [str(jars / "*")])


def java(classes: Sequence[str], jars: Sequence[str]) -> str:
    """The class path of these jars, and of these classes of ours, which need them."""
    sources = [JAVA / f"{name}.java" for name in classes]
    command = ["javac", "-cp", os.pathsep.join(jars), *map(str, sources)]
    folder = built(classes[-1], sources, lambda folder: run([*command, "-d", str(folder)]))
    return os.pathsep.join([str(folder), *jars])


def nats_streaming() -> tuple[Path, Path]:
    """The programs of a NATS Streaming: its server, and its driver."""
    folder = built("nats-streaming", [GO / "go.mod", GO / "driver.go"], go)
    return folder / "nats-streaming-server", folder / "live"


def maven(pom: Path, folder: Path) -> None:
    """Bring the jars that a pom.xml names."""
    goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={folder}"]
    run(["mvn", "--quiet", "--batch-mode", "--file", str(pom), *goal])


def go(folder: Path) -> None:
    """Bring and compile the server and the driver."""
    with tempfile.TemporaryDirectory() as module:  # where Go may write the sums of what it brings
        shutil.copytree(GO, module, dirs_exist_ok=True)
        programs = [".", "github.com/nats-io/nats-streaming-server"]
        run(["go", "build", "-mod=mod", "-o", f"{folder}/", *programs], module)


def built(name: str, sources: Sequence[Path], build: Callable[[Path], None]) -> Path:
    """The folder with what is built of these sources; it is built once.

    Raises:
        BuildError: it cannot be built.
    """
    key = hashlib.sha256(b"\0".join(source.read_bytes() for source in sources)).hexdigest()[:12]
    folder = CACHE / f"{name}-{key}"
    if not folder.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE, ignore_cleanup_errors=True) as directory:
            new = Path(directory, name)
            new.mkdir()
            build(new)
            with suppress(OSError):  # another run was faster
                new.rename(folder)
    return folder


def run(command: Sequence[str], directory: str | None = None) -> None:
    """Run a compiler.

    Raises:
        BuildError: it failed.
    """
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    if done.returncode:
        said = f"{done.stdout}{done.stderr}".strip()
        message = f"{command[0]} failed: {said[-500:]}"
        raise BuildError(message)
