"""What a test needs and may not find: then it is skipped, and fails in CI, where all is there."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import NoReturn

import pytest


def lack(reason: str) -> NoReturn:
    """End the test for want of something."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def need(module: str, extra: str) -> None:
    """Go on only where this module is installed."""
    if find_spec(module) is None:
        lack(f"no {module} here: pip install -e '.[{extra}]'")
