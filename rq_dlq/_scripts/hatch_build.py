"""A build hook of hatchling, which adds the joined text of the Lua modules to a wheel."""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class JoinedText(BuildHookInterface[Any]):
    """Joins the modules of the source tree."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the files, and include them in the wheel; an editable install uses the checkout's modules."""
        self._folder = TemporaryDirectory()
        if version == "editable":
            return
        sys.path.insert(0, self.root)
        from rq_dlq._scripts import JOINED, carried  # noqa: PLC0415 - the tree's own, which needs nothing else

        for name, text in carried.written(JOINED.library).items():
            file = Path(self._folder.name) / name
            file.write_text(text, encoding="utf-8")
            build_data["force_include"][str(file)] = f"rq_dlq/_scripts/{name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the files."""
        del version, build_data, artifact_path
        self._folder.cleanup()
