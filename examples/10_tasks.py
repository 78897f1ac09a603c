"""Tasks: one module is the app that sends them and the worker that runs them, here with asyncio.

A web app imports it and awaits `welcome.send(…)`; beside it runs `rq-dlq worker MODULE:broker`.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import date
from typing import Any

from rq_dlq import RedeliveryPolicy
from rq_dlq.asyncio import Broker, Delivery


@dataclass
class User:
    name: str
    born: date


class Mailer:
    async def mail(self, to: str, text: str) -> None:
        await asyncio.sleep(0.01)
        print(f"to {to}: {text}")


broker = Broker()
mails = broker.queue("example-tasks", redelivery=RedeliveryPolicy(initial_delay="200ms", max_redeliveries=2))


@broker.lifespan  # entered once a worker process
async def resources() -> AsyncIterator[Mailer]:
    print("connected")
    yield Mailer()
    print("disconnected")


@broker.task(queue=mails, concurrency=10, timeout="20s")
async def welcome(user: User, *, lang: str = "en", delivery: Delivery[Any] | None = None) -> None:
    greeting = {"en": "Welcome", "de": "Willkommen"}[lang]
    mailer = delivery.state if delivery else Mailer()  # none, if the function is called here
    await mailer.mail(user.name, f"{greeting}, born {user.born:%Y}")


@broker.task(queue=mails)
async def add(a: int, b: int) -> int:
    return a + b


async def main() -> None:
    await mails.purge(all=True)
    await mails.dlq.purge(all=True)
    await welcome.send(User("Ada", date(1815, 12, 10)))
    first = welcome.options(priority=9, headers={"tenant": "a"})
    await first.send(User("Emmy", date(1882, 3, 23)), lang="de")
    try:
        await add.send(1, "2")  # type: ignore[call-overload]  # a type checker says so, too
    except ValueError as error:
        print(error)
    await mails.send({"a": 1}, headers={"task": "add"})  # as another version may; it does not fit this one
    await broker.run(burst=True)  # without burst: until SIGTERM or SIGINT
    for message in await mails.select(places=["scheduled"]).browse():
        print(f"waits for another version: {message.history[-1].cause.message}")
    await mails.purge(all=True)
    print("1 + 2 =", await add(1, 2))  # calls the function, here
    await broker.close()


if __name__ == "__main__":
    asyncio.run(main())
