"""Makes the site; `make docs` runs this."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.checkout import ROOT
from tests.site import pages, reference
from tests.site.links import dead
from tests.site.pages import Page

BUILD = ROOT / "build"
SOURCES, SITE = BUILD / "docs", BUILD / "site"
CONFIGURATION, STYLE = ROOT / "docs" / "zensical.toml", ROOT / "docs" / "site.css"
SUMMARY = "A work queue on Redis for Python, with redelivery, dead letters and redrive."


def chapters() -> dict[str, Sequence[Page]]:
    """The navigation: the reference stands before what contributors read."""
    written = pages.listed()
    last = written.pop("For contributors")
    return {**written, "Reference": reference.pages(), "For contributors": last}


def navigation(found: Mapping[str, Sequence[Page]]) -> str:
    """As the configuration takes it."""
    chapters = ({title: [{one.title: one.path} for one in below]} for title, below in found.items())
    return f"nav = {_toml([{'rq_dlq': 'index.md'}, *chapters])}\n"


def _toml(value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{json.dumps(key)} = {_toml(one)}' for key, one in value.items())} }}"
    return json.dumps(value, ensure_ascii=False)


def llms(found: Mapping[str, Sequence[Page]]) -> str:
    """llms.txt: the pages in a form for programs that read."""
    parts = [f"# rq_dlq\n\n> {SUMMARY}\n"]
    for title, below in found.items():
        rows = [f"- [{one.title}]({one.path.removesuffix('.md')}.html): {one.about}\n" for one in below]
        parts.append(f"## {title}\n\n{''.join(rows)}")
    return "\n".join(parts)


def write_sources() -> None:
    """All that the site is made of, into build/docs."""
    shutil.rmtree(SOURCES, ignore_errors=True)
    for path, text in {**pages.written(), **reference.texts()}.items():
        (SOURCES / path).parent.mkdir(parents=True, exist_ok=True)
        (SOURCES / path).write_text(text, encoding="utf-8")
    shutil.copy(STYLE, SOURCES)
    (SOURCES / "images").mkdir()
    for image in pages.images():
        shutil.copy(image, SOURCES / "images")
    found = chapters()
    (SOURCES / "llms.txt").write_text(llms(found), encoding="utf-8")
    settings = CONFIGURATION.read_text(encoding="utf-8")
    (BUILD / "zensical.toml").write_text(settings.replace("nav = []\n", navigation(found)), encoding="utf-8")


def build() -> int:
    """Make the site, and say what is wrong with it.

    Returns:
        The exit code.
    """
    write_sources()
    shutil.rmtree(SITE, ignore_errors=True)
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean", "-f", "zensical.toml"]
    done = subprocess.run(command, cwd=BUILD, capture_output=True, text=True, check=False)
    if done.returncode or re.search("warning|griffe", done.stdout + done.stderr, re.IGNORECASE):
        sys.stderr.write(done.stdout + done.stderr)
        return 1
    links = [*dead(SITE)]
    sys.stderr.writelines(f"dead link: {link}\n" for link in links)
    sys.stdout.write(f"{SITE.relative_to(Path.cwd())}: {len([*SITE.rglob('*.html')])} pages\n")
    return bool(links)


if __name__ == "__main__":
    sys.exit(build())
