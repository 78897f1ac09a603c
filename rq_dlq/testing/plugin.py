"""The pytest plugin: the fixture `rq_dlq`. It is loaded in each run of pytest, so imports are deferred."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rq_dlq.testing import TestBroker

OPTION = "--rq-dlq-redis"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option for a server."""
    parser.getgroup("rq_dlq").addoption(
        OPTION,
        metavar="URL",
        help=(
            "run the tests that use the fixture `rq_dlq` on this Redis, in an empty database that they may "
            "flush, instead of on fakeredis"
        ),
    )


@pytest.fixture
def rq_dlq(request: pytest.FixtureRequest) -> Iterator[TestBroker]:
    """A broker on an empty server, whose clock the test moves.

    While the test runs, every broker of this process uses this server, whatever its URL.
    """
    from rq_dlq.errors import RqDlqError  # noqa: PLC0415 - only when a test uses it
    from rq_dlq.testing.redirect import redirected  # noqa: PLC0415
    from rq_dlq.testing.server import server_at  # noqa: PLC0415

    url = request.config.getoption(OPTION)
    worker = getattr(request.config, "workerinput", {}).get("workerid", "gw0")  # from pytest-xdist
    try:
        with server_at(url, int(worker.removeprefix("gw"))) as server:
            with pytest.MonkeyPatch.context() as patch:  # a separate one, so that the test's patches stay
                broker = redirected(server, patch)
                yield broker
            if pending := broker.faults.pending():
                pytest.fail(f"these faults did not occur, so nothing was tested: {', '.join(pending)}")
    except RqDlqError as error:
        raise pytest.UsageError(str(error)) from None
