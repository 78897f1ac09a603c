"""A real browser, and a process that serves it the pages."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tests import servers
from tests.needs import lack, missing, need
from tests.servers.started import Started

SOON = 30_000  # milliseconds


@contextmanager
def serving(url: str, env: Mapping[str, str] | None = None) -> Iterator[str]:
    """`rq-dlq web` for a broker at this URL; the address of the pages.

    Args:
        env: variables beside ours.
    """
    need("starlette", "web")
    address = f"127.0.0.1:{servers.free_port()}"
    words = [sys.executable, "-m", "rq_dlq", "web", "--listen", address, "--url", url]
    out, variables = subprocess.DEVNULL, {**os.environ, **(env or {})}
    with Started(words, stdout=out, stderr=out, env=variables) as pages:
        try:
            servers.wait_until(lambda: _answers(address))
            yield f"http://{address}"
        finally:
            pages.terminate()


def _answers(address: str) -> bool:
    import httpx  # noqa: PLC0415 - the extra may be missing

    try:
        return httpx.get(f"http://{address}/static/icon.svg").status_code == 200
    except httpx.TransportError:
        return False


@contextmanager
def launched() -> Iterator[Any]:
    """Debian's chromium; where there is none the test is skipped, and fails in CI."""
    need("playwright", "dev-browser")
    program = shutil.which("chromium")
    if program is None:
        lack(missing("chromium"))
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - it may be missing

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@contextmanager
def opened(chromium: Any, *, width: int = 1280, theme: str = "light", **options: Any) -> Iterator[Any]:
    """A page; what goes wrong on it fails the test."""
    size = {"width": width, "height": 800}
    context = chromium.new_context(viewport=size, color_scheme=theme, **options)
    page = context.new_page()
    page.set_default_timeout(SOON)
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda line: wrong.append(line.text) if "Content Security" in line.text else None)
    yield page
    context.close()
    assert not wrong, wrong
