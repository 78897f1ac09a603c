"""A web program and its worker: `uvicorn api:app`, and beside it `rq-dlq worker api:broker`."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from fastapi import FastAPI, HTTPException
from pydantic import BaseModel

from rq_dlq import Poison, ResultError, ResultUnavailable
from rq_dlq.asyncio import Broker

broker = Broker()  # the Redis in $RQ_DLQ_URL
PRICES = {"tea": 3.5, "cake": 4.0}


class Order(BaseModel):
    item: str
    pieces: int = 1


@broker.task(queue="invoices", result=True)
async def invoice(order: Order) -> float:
    if order.item not in PRICES:
        raise Poison(f"there is no {order.item}")  # no retry would help
    return order.pieces * PRICES[order.item]


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
    async with broker:  # closes its connections
        yield


app = FastAPI(lifespan=lifespan)


@app.post("/orders", status_code=202)
async def place(order: Order) -> dict[str, str]:
    """Send, and answer at once."""
    return {"id": await invoice.send(order)}


@app.get("/orders/{number}")
async def show(number: str) -> dict[str, float]:
    """The result, if it is there."""
    return {"total": await total_of(number, wait="0s")}


@app.post("/invoices")
async def write(order: Order) -> dict[str, float]:
    """Send, and wait for the result."""
    return {"total": await total_of(await invoice.send(order), wait="20s")}


async def total_of(number: str, wait: str) -> float:
    try:
        return float(await broker.queue("invoices").result(number, wait=wait))
    except ResultError as error:
        raise HTTPException(422, error.cause) from None
    except ResultUnavailable:
        raise HTTPException(404, "not done yet, or unknown") from None
