"""Processes that a test starts."""

from __future__ import annotations

import subprocess
from types import TracebackType
from typing import Any


class Started(subprocess.Popen[Any]):
    """As `Popen`, which waits for the process at the end of `with`: after an error it is killed first.

    The test may have failed because the process did not end.
    """

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self.kill()
        super().__exit__(kind, error, trace)
