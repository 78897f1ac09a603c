"""Links of the made site that lead nowhere."""

from __future__ import annotations

from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class _Reader(HTMLParser):
    """The ids and the links of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag has."""
        del tag
        found = dict(attrs)
        self.ids |= {value for name in ("id", "name") if (value := found.get(name))}
        self.links |= {value for name in ("href", "src", "srcset") if (value := found.get(name))}


def dead(site: Path) -> Iterator[str]:
    """A line for each link to a file or a chapter that is not there."""
    pages = {path: _Reader(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        if path.name == "404.html":
            continue
        for link in sorted(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            known = pages.get(target)
            fragment = unquote(parts.fragment)
            if not target.exists() or (
                known and fragment and fragment not in known.ids and not fragment.startswith("__")
            ):
                yield f"{path.relative_to(site)}: {link}"
