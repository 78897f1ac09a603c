"""No file of cases is forgotten."""

from __future__ import annotations

import ast

from tests.cases import FOLDER, load
from tests.tables import each_row

ROOT = FOLDER.parent
FILES = sorted(file.stem for file in FOLDER.iterdir())

RUN_BY = {
    "artemis_delay": "policy/test_conformance.py::test_artemis_delay",
    "artemis_due_order": "behaviour/upkeep/test_moments.py::test_due_order",
    "artemis_jitter_stat": "policy/test_conformance.py::test_artemis_jitter",
    "artemis_match": "policy/test_map_conformance.py::test_match",
    "artemis_merge": "policy/test_map_conformance.py::test_merge",
    "artemis_resolve": "policy/test_map_conformance.py::test_resolve",
    "artemis_validate": "policy/test_conformance.py::test_artemis_validate",
    "attempts": "behaviour/test_cases.py::test_attempts",
    "behaviour": "behaviour/test_cases.py::test_every_row_is_run_or_has_a_reason",
    "classic_both": "policy/test_map_conformance.py::test_both",
    "classic_choose": "policy/test_map_conformance.py::test_choose",
    "classic_discard_plugin": "policy/test_map_conformance.py::test_discard",
    "classic_dls": "policy/test_map_conformance.py::test_strategy",
    "classic_jitter_stat": "policy/test_conformance.py::test_classic_jitter",
    "classic_match": "policy/test_map_conformance.py::test_match",
    "classic_next": "policy/test_conformance.py::test_classic_next",
    "classic_schedule": "policy/test_conformance.py::test_classic_schedule",
    "dlq_name": "policy/test_map_conformance.py::test_name",
    "expired_at": "behaviour/upkeep/test_moments.py::test_expired",
    "expiry_clamp": "policy/test_map_conformance.py::test_clamp",
    "js_backoff_valid": "policy/test_jetstream.py::test_which_settings_are_valid",
    "js_wait": "behaviour/settling/test_jetstream.py::test_wait",
    "rq_delay": "policy/test_conformance.py::test_rq_delay",
    "stan_timeline": "behaviour/settling/test_timeline.py::test_each_is_handled_once",
}


def texts(node: ast.AST) -> set[str]:
    """The texts in a piece of a program, and the names it uses."""
    found = {it.value for it in ast.walk(node) if isinstance(it, ast.Constant)}
    return {text for text in found if isinstance(text, str)} | {
        it.id for it in ast.walk(node) if isinstance(it, ast.Name)
    }


@each_row("group", FILES)
def test_a_test_runs_it(group: str) -> None:
    """The test is parametrised with the group, or names what is assigned from it."""
    file, _, name = RUN_BY[group].partition("::")
    module = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    (test,) = [
        node
        for node in module.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name
    ]
    used = texts(test)
    for node in module.body:
        if isinstance(node, ast.Assign) and used & texts(ast.Tuple(node.targets, ast.Store())):
            used |= texts(node.value)
    assert group in used


def test_no_entry_is_left_behind() -> None:
    assert sorted(RUN_BY) == FILES


@each_row("group", FILES)
def test_ids_are_unique(group: str) -> None:
    ids = [row["id"] for row in load(group)]
    assert len(ids) == len(set(ids)) > 0
