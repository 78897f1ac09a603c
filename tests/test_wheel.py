"""The wheel is whole: it works where there is no checkout, unpacked and as a zip on sys.path."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from rq_dlq._scripts import JOINED, carried

ROOT = Path(__file__).resolve().parent.parent
CARRIED = {f"rq_dlq/_scripts/{name}": text for name, text in carried.written(JOINED.library).items()}
LUA = {str(file.relative_to(ROOT)) for file in (ROOT / "lua").glob("*.lua")}
# What programs say
ROUND_TRIP = """\
import sys
sys.path.insert(0, sys.argv[1])
import fakeredis
import rq_dlq
assert rq_dlq.__file__.startswith(sys.argv[1]), rq_dlq.__file__
with rq_dlq.Broker(pool=fakeredis.FakeRedis().connection_pool) as broker:
    queue = broker.queue("q")
    sent = queue.send({"n": 1})
    (delivery,) = queue.claim()
    delivery.nack("no", delay=0)
    (delivery,) = queue.claim()
    print(delivery.id == sent, delivery.body, delivery.delivery_count)
    delivery.poison("never")
    print(len(queue.dlq.browse()), queue.dlq.redrive(all=True).counts.moved, queue.stats().ready)
"""
MOVED = """\
from rq_dlq.testing.clock import CLOCK, MOVED_CLOCK
print(CLOCK in MOVED_CLOCK.library.text)
"""
DEMO = """\
from rq_dlq.cli.demo import example_of
print(example_of("demo").workers.APP)
"""
"""The module that the workers of `rq-dlq demo` import."""
ALONE = """\
import sys
sys.path.insert(0, sys.argv[1])
from rq_dlq import _scripts
print(_scripts.JOINED.library.name)
print(_scripts._files.cache_info().misses)
"""
"""The name of the library, and how often the modules were read."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of this checkout."""
    if not (ROOT / "pyproject.toml").exists():
        pytest.skip("no pyproject.toml: this is no checkout")
    if importlib.util.find_spec("hatchling") is None:
        pytest.skip("hatchling is not installed: pip install hatchling")
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    built = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    (file,) = folder.glob("*.whl")
    return file


def told(program: str, path: Path, cwd: Path, *options: str) -> list[str]:
    """What a program says that finds rq_dlq at this place, and no checkout."""
    command = [sys.executable, *options, "-c", program, str(path)]
    ran = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()


EXPECTED = ["True {'n': 1} 2", "1 1 1"]


def test_it_carries_the_library_the_examples_and_nothing_of_the_tests(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        texts = {file: archive.read(file).decode() for file in names if file in CARRIED}
    assert texts == CARRIED
    lua = {name for name in names if name.endswith(".lua")}
    assert lua == {f"rq_dlq/{file}" for file in LUA} | {name for name in CARRIED if name.endswith(".lua")}
    files = [*(ROOT / "examples").glob("[0-9]*.py"), *(ROOT / "examples" / "demo").glob("*.py")]
    examples = {f"rq_dlq/{file.relative_to(ROOT)}" for file in files}
    assert examples
    assert examples <= names
    beside = "pyspark_rq_dlq.py"  # where Spark looks for formats
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"rq_dlq", beside}
    assert "rq_dlq/py.typed" in names


def test_it_works_unpacked_elsewhere(wheel: Path, tmp_path: Path) -> None:
    target = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(target)  # as pip does, which `.ci/run wheel` has install it
    unpacked = told(f"{ROUND_TRIP}{MOVED}{DEMO}", target, tmp_path)
    assert unpacked == [*EXPECTED, "True", "rq_dlq.examples.flights"]
    assert told(ALONE, target, tmp_path) == [JOINED.library.name, "0"], "it need not join"


def test_the_library_is_joined_where_nothing_is_installed(tmp_path: Path) -> None:
    """As it is where a wheel is built, but for hatchling."""
    assert told(ALONE, ROOT, tmp_path, "-I", "-S") == [JOINED.library.name, "1"]


def test_what_is_carried_is_read_as_it_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "_scripts").mkdir()
    monkeypatch.setattr(carried, "resources", SimpleNamespace(files=lambda _: tmp_path))
    assert carried.read() is None
    for name, text in carried.written(JOINED.library).items():
        (tmp_path / "_scripts" / name).write_text(text, encoding="utf-8")
    assert carried.read() == JOINED.library


def test_it_works_as_a_zip_on_the_path(wheel: Path, tmp_path: Path) -> None:
    assert told(ROUND_TRIP, wheel, tmp_path) == EXPECTED


def test_it_works_as_a_bare_checkout(tmp_path: Path) -> None:
    assert told(ROUND_TRIP + DEMO, ROOT, tmp_path) == [*EXPECTED, "examples.flights"]
