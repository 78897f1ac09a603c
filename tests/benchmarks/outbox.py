"""What a message costs a transaction: an INSERT with a send by the outbox beside it, and the INSERT alone.

$ python -m tests.benchmarks.outbox                     pairs in turns, on PostgreSQL; then the relay's pace
$ python -m tests.benchmarks.outbox --transactions 500  fewer
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from sqlalchemy import Column, Engine, Float, Integer, MetaData, Table, create_engine, insert
from sqlalchemy.orm import Session

import rq_dlq
from rq_dlq.outbox import Outbox
from tests.outbox.databases import relayed
from tests.servers import Server, postgres

METADATA = MetaData()
COLUMNS = (Column("id", Integer, primary_key=True), Column("item", Integer), Column("total", Float))
ORDERS = Table("orders", METADATA, *COLUMNS)


def seconds(engine: Engine, outbox: Outbox | None, queue: rq_dlq.Queue[object], numbers: range) -> float:
    """How long so many transactions take, each with its order and, if there is an outbox, its message."""
    began = time.perf_counter()
    for number in numbers:
        with Session(engine) as session, session.begin():
            session.execute(insert(ORDERS), {"id": number, "item": 7, "total": 9.5})
            if outbox is not None:
                outbox.send(session, queue, {"id": number, "item": 7, "total": 9.5})
    return time.perf_counter() - began


def main(words: Sequence[str] | None = None) -> None:
    """Print both, and how many rows a relay sends in a second."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--transactions", type=int, default=2_000, help="of each kind in a round")
    parser.add_argument("--rounds", type=int, default=9)
    given = parser.parse_args(words)
    ratios, plain, both = list[float](), list[float](), list[float]()
    with (
        postgres.running() as url,
        tempfile.TemporaryDirectory(prefix="rq-dlq-") as folder,
        Server(Path(folder)) as server,
        rq_dlq.Broker(server.url) as broker,
    ):
        engine, queue = create_engine(url), broker.queue("orders")
        outbox = Outbox(broker, engine)
        for metadata in (METADATA, outbox.metadata):
            metadata.create_all(engine)
        for turn in range(given.rounds + 1):
            first = 2 * turn * given.transactions
            numbers = range(first, first + given.transactions)
            took = [
                seconds(engine, None, queue, numbers),
                seconds(engine, outbox, queue, range(numbers.stop, numbers.stop + given.transactions)),
            ]
            if turn:  # the first one warms up
                plain.append(took[0])
                both.append(took[1])
                ratios.append(took[1] / took[0])
        began = time.perf_counter()
        relayed(outbox)
        relay = time.perf_counter() - began
        sent = queue.stats().ready
        engine.dispose()
    each = 1e6 / given.transactions
    print(
        f"a transaction of one INSERT: {statistics.median(plain) * each:,.0f} us; "
        f"with a message in the outbox: {statistics.median(both) * each:,.0f} us, "
        f"{statistics.median(ratios):.2f} times ({min(ratios):.2f} to {max(ratios):.2f}); "
        f"the relay sent {sent:,} rows, {sent / relay:,.0f} a second"
    )


if __name__ == "__main__":
    main()
