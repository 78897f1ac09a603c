"""A broker of either colour for a URL."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeAlias

import pytest

import rq_dlq
import rq_dlq.asyncio
from tests.colours import Awaited

Opening: TypeAlias = Callable[..., AbstractAsyncContextManager[Any]]


@pytest.fixture(params=["sync", "async"])
def opened(request: pytest.FixtureRequest) -> Opening:
    """Opens brokers of one colour, to be awaited."""

    @asynccontextmanager
    async def opening(url: str, **options: Any) -> AsyncIterator[Any]:
        if request.param == "async":
            async with rq_dlq.asyncio.Broker(url, **options) as awaiting:
                yield awaiting
        else:
            with rq_dlq.Broker(url, **options) as blocking:
                yield Awaited(blocking)

    return opening
