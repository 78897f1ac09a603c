"""A consumer takes the messages of a queue on a node that answers, even if it can open no queue now."""

from __future__ import annotations

from typing import Any

import pytest

import rq_dlq
from rq_dlq.core.steps.step import NodeUnavailable
from tests.dead_nodes.conftest import HERE, Kill
from tests.servers.clusters import Cluster
from tests.variants import both_colours

pytestmark = both_colours("each colour meets a dead connection in its own way")


async def test_a_consumer_that_is_new_takes_messages(broker: Any, nodes: Cluster, kill: Kill) -> None:
    """To open its queue it would need the node of the aliases."""
    with rq_dlq.Broker(nodes.nodes[1].url) as sender:
        sender.queue(HERE).send_many(["first", "second"])
    queue = broker.queue(HERE)
    kill(2)
    for body in ("first", "second"):
        (delivery,) = await queue.claim()
        assert delivery.body == body
        await delivery.ack()
    assert not queue._core.opened
    nodes.nodes[2].start()
    nodes.wait_well()
    assert await queue.claim() == []
    assert not queue._core.opened, "the node rests"
    await queue.send("third")
    assert queue._core.opened


async def test_a_name_that_nobody_sent_to_may_be_a_view(broker: Any, kill: Kill) -> None:
    kill(2)
    with pytest.raises(rq_dlq.BrokerUnavailable) as raised:
        await broker.queue(HERE).claim()
    assert not isinstance(raised.value, NodeUnavailable)
