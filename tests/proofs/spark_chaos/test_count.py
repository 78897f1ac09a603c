"""What was lost and what came twice is found."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import rq_dlq
from tests.proofs.spark_chaos.count import Tally, kept, sizes, tally, written


def test_a_planted_loss_and_a_planted_duplicate_are_found(sync_broker: rq_dlq.Broker, tmp_path: Path) -> None:
    queue = sync_broker.queue("orders")
    sent = queue.send_many(range(6))
    first, second, third, dead, _, lost = sent

    def sink(epoch: int, *ids: str) -> None:
        folder = tmp_path / f"epoch={epoch}"
        folder.mkdir(exist_ok=True)
        pq.write_table(pa.table({"id": list(ids)}), folder / "part-0.parquet")

    sink(0, first, second)
    sink(1, third)
    deliveries = queue.claim(6)
    queue.ack([each for each in deliveries if each.id in {first, second, third}])
    queue.poison([each for each in deliveries if each.id == dead], ValueError("bad"))
    assert tally(sent, written(tmp_path), kept(queue)) == Tally(sent=6, lost=0, duplicated=0)

    sink(1, third, first)
    queue.ack([each for each in deliveries if each.id == lost])
    assert tally(sent, written(tmp_path), kept(queue)) == Tally(sent=6, lost=1, duplicated=1)


def test_batches_have_their_sizes_in_the_order_of_their_writes(tmp_path: Path) -> None:
    for epoch, ids in ((10, ["a", "b"]), (9, [])):
        folder = tmp_path / f"epoch={epoch}"
        folder.mkdir()
        pq.write_table(pa.table({"id": pa.array(ids, pa.string())}), folder / "part-0.parquet")
        os.utime(folder, (epoch, 20 - epoch))
    assert sizes(tmp_path) == [2, 0]
