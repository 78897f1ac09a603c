"""Ctrl-C in the first moments: while the command line is imported."""

from __future__ import annotations

import subprocess
import sys

import pytest

import rq_dlq
from rq_dlq import _public

PROGRAM = """
import os, runpy, signal, sys

class Interrupting:
    left = int(sys.argv.pop(1))
    begun = False

    def find_spec(self, name, path=None, target=None):
        self.begun |= name == "rq_dlq.cli"
        self.left -= self.begun
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGINT)

interrupting = Interrupting()
sys.meta_path.insert(0, interrupting)
sys.argv[0] = "rq-dlq"
if sys.argv.pop(1) == "module":
    import rq_dlq
    runpy.run_module("rq_dlq", run_name="__main__")
else:
    from rq_dlq.__main__ import main
    main()
"""


def start(moment: int, way: str) -> subprocess.CompletedProcess[str]:
    """`rq-dlq worker --help`, with a SIGINT at an import, counted from the command line's first module."""
    words = [sys.executable, "-c", PROGRAM, str(moment), way, "worker", "--help"]
    return subprocess.run(words, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("way", ["module", "script"])
@pytest.mark.parametrize("moment", [1, 2, 5, 10, 25, 50, 100, 200, 300])
def test_an_interrupt_while_it_is_imported_ends_it_without_a_traceback(moment: int, way: str) -> None:
    ended = start(moment, way)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")


def test_nothing_is_imported_before_an_interrupt_would_be_seen() -> None:
    code = "import sys; before = {*sys.modules}; import rq_dlq.__main__; print(*({*sys.modules} - before))"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    own = {"rq_dlq", "rq_dlq.__main__", "rq_dlq.values", "rq_dlq.values.runner", "rq_dlq.values.version"}
    assert {*ended.stdout.split()} <= {*own, "__future__"}


def test_the_package_offers_its_names_though_it_imports_them_late() -> None:
    names: dict[str, object] = {}
    exec("from rq_dlq import *", names)  # noqa: S102 - not allowed in a function
    assert {*_public.__all__} <= names.keys() & {*dir(rq_dlq)}
    assert names["Broker"] is rq_dlq.Broker
    with pytest.raises(AttributeError, match="module 'rq_dlq' has no attribute 'Brokr'"):
        rq_dlq.Brokr  # type: ignore[attr-defined]  # noqa: B018
