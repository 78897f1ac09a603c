"""What is not here is told once, with how many tests need it."""

from __future__ import annotations

import pytest

from tests import needs


def test_a_line_for_each_thing_that_is_not_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    java, luacheck = needs.missing("java"), needs.missing("luacheck")
    others = ["Skipped: before Redis 7 there is none", "unconditional skip"]
    assert needs.summary([*others, f"Skipped: {luacheck}", *[f"Skipped: {java}"] * 12]) == [
        "   12 not run: no java here: apt-get install default-jre-headless",
        "    1 not run: no luacheck here: apt-get install lua-check",
        "    2 not run for other reasons, which -rs tells",
    ]
    assert needs.summary([]) == []


def test_a_lack_is_a_failure_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("CI", "")
    with pytest.raises(pytest.skip.Exception, match="no java here"):
        needs.need_program("java")
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="no java here"):
        needs.need_program("java")
    with pytest.raises(pytest.fail.Exception, match=r"no nonsense here: pip install -e '\.\[dev\]'"):
        needs.need("nonsense", "dev")


@pytest.mark.parametrize("program", needs.PACKAGES)
def test_each_reason_is_one_of_the_summary(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert needs.LACK.fullmatch(needs.missing(program))


def test_a_line_for_each_thing_where_pytest_tells_the_skips_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """The README's line has `-rs`."""
    monkeypatch.setenv("PATH", "")
    java = needs.missing("java")
    reports = [skipped("a.py", f"Skipped: {java}"), skipped("b.py", java), skipped("c.py", "only on Linux")]
    needs.fold(reports)
    place = (needs.__file__, needs.lack.__code__.co_firstlineno)
    assert reports[0].longrepr == reports[1].longrepr == (*place, java)
    assert reports[2].longrepr == ("c.py", 7, "only on Linux")


@pytest.mark.parametrize(
    ("module", "extra"), [("django", "dev"), ("pyspark", "dev-spark"), ("playwright", "dev-browser")]
)
def test_the_large_extras_are_here(module: str, extra: str) -> None:
    """In CI: without one its tests are not even collected."""
    needs.need(module, extra)


def skipped(file: str, reason: str) -> pytest.TestReport:
    """As pytest reports it."""
    return pytest.TestReport(file, (file, 7, "test"), {}, "skipped", (file, 7, reason), "setup")
