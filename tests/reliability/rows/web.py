"""T26: the web page."""

from __future__ import annotations

from tests.reliability.row import Figures, Row, Run


def run(run: Run) -> Figures:
    """Nothing can be tried."""
    del run
    raise NotImplementedError


ROWS = (
    Row(
        "T26",
        "web: no token, wrong token, cross-site POST, redrive by GET, stored XSS, traversal",
        "401, 403, 405, escaped, CSP: all",
        run,
        missing=lambda: "there is no web page yet",
        unbuilt=True,
    ),
)
