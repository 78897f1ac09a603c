"""The same queue with asyncio: the same names, with await."""

import asyncio

from rq_dlq.asyncio import Broker


async def main() -> None:
    async with Broker() as broker:
        orders = broker.queue("example-asyncio")
        await orders.purge(all=True)
        await orders.send_many(range(100))

        async def consume(name: str) -> int:
            done = 0
            while deliveries := await orders.claim(count=10):
                for delivery in deliveries:
                    async with delivery:
                        await asyncio.sleep(0)  # the work
                        done += delivery.body >= 0
            print(name, "did", done)
            return done

        print(sum(await asyncio.gather(*(consume(name) for name in "abc"))), "in all")


asyncio.run(main())
