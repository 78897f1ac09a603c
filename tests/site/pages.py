"""The written pages. The tables of docs/README.md are their list, and so the navigation."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from tests.checkout import ROOT

LIST = ROOT / "docs" / "README.md"
MOVED = {  # from where they are in the repository to where they are in the site
    "README.md": "index.md",
    "docs/README.md": "pages.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security-reports.md",
    "lua/README.md": "lua.md",
}
LINK = re.compile(r"\[(?P<text>[^]\[]+)\]\((?!https?:|#)(?P<target>[^)#\s]+)(?P<anchor>#[^)]*)?\)")
CODE = re.compile(r"(?<!\[)`(?P<target>(?:docs/)?[\w-]+\.md|lua/README\.md)`(?!\])")
SOURCE = re.compile(r'(?<=src=")docs/|(?<=srcset=")docs/')
ROW = re.compile(r"^\| \[(.+?)\]\((.+?)\) \| (.+) \|$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Page:
    """A page of the navigation.

    Attributes:
        path: in the site.
        about: half a sentence.
    """

    title: str
    path: str
    about: str


def moved(source: str) -> str:
    """Where a page of the repository is in the site."""
    return MOVED.get(source, source.removeprefix("docs/"))


def listed() -> dict[str, list[Page]]:
    """The pages by chapter of the list."""
    _, *chapters = LIST.read_text(encoding="utf-8").split("\n## ")
    return {
        chapter.partition("\n")[0]: [
            Page(title, moved(os.path.normpath(f"docs/{target}")), about)
            for title, target, about in ROW.findall(chapter)
        ]
        for chapter in chapters
    }


def sources() -> list[str]:
    """The written pages, by their paths in the repository."""
    return [*MOVED, *(f"docs/{path.name}" for path in sorted(LIST.parent.glob("*.md")) if path != LIST)]


def written() -> Mapping[str, str]:
    """The texts of the pages by their paths in the site, with the links as they are there."""
    return {moved(source): _moved(source) for source in sources()}


def _moved(source: str) -> str:
    here, at = PurePosixPath(source).parent, PurePosixPath(moved(source)).parent
    pages = {*sources()}

    def link(found: re.Match[str]) -> str:
        target = os.path.normpath(here / found["target"])
        if target not in pages and not target.startswith("docs/"):
            return found["text"]  # a file that only the repository has
        return f"[{found['text']}]({os.path.relpath(moved(target), at)}{found['anchor'] or ''})"

    def named(found: re.Match[str]) -> str:
        target = next((one for one in (found["target"], f"docs/{found['target']}") if one in pages), None)
        return f"[{found[0]}]({os.path.relpath(moved(target), at)})" if target else found[0]

    text = (ROOT / source).read_text(encoding="utf-8")
    prose = re.split(r"(^```.*?^```$)", text, flags=re.DOTALL | re.MULTILINE)
    prose[::2] = [SOURCE.sub("", CODE.sub(named, LINK.sub(link, part))) for part in prose[::2]]
    return "".join(prose)


def images() -> list[Path]:
    """What pages show."""
    return sorted((ROOT / "docs" / "images").iterdir())
