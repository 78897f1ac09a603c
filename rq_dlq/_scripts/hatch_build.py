"""A build hook of hatchling, which adds the assembled scripts to a wheel."""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class AssembledScripts(BuildHookInterface[Any]):
    """Assembles the scripts of the source tree."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the texts, and include them in the wheel; an editable install uses the checkout's files."""
        self._folder = TemporaryDirectory()
        if version == "editable":
            return
        sys.path.insert(0, self.root)
        from rq_dlq._scripts import CARRIED, SCRIPTS  # noqa: PLC0415 - the tree's own, which needs nothing else

        for name in SCRIPTS.names():
            (Path(self._folder.name) / f"{name}.lua").write_text(SCRIPTS[name].source, encoding="utf-8")
        build_data["force_include"][self._folder.name] = f"rq_dlq/_scripts/{CARRIED}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the texts."""
        del version, build_data, artifact_path
        self._folder.cleanup()
