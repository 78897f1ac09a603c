from collections.abc import Iterator

import pytest
from api import app, invoice
from fastapi.testclient import TestClient

from rq_dlq.testing import TestBroker


@pytest.fixture
def client(rq_dlq: TestBroker) -> Iterator[TestClient]:
    with TestClient(app) as client:
        yield client


def test_an_order_is_invoiced_later(client: TestClient, rq_dlq: TestBroker) -> None:
    answer = client.post("/orders", json={"item": "tea", "pieces": 2})
    assert answer.status_code == 202
    where = f"/orders/{answer.json()['id']}"
    assert client.get(where).status_code == 404
    rq_dlq.drain(invoice)  # as a worker does
    assert client.get(where).json() == {"total": 7.0}


def test_an_invoice_is_awaited(client: TestClient, rq_dlq: TestBroker) -> None:
    with rq_dlq.inline():  # each send is handled at once
        assert client.post("/invoices", json={"item": "cake"}).json() == {"total": 4.0}


def test_what_is_not_sold_is_a_dead_letter(client: TestClient, rq_dlq: TestBroker) -> None:
    with rq_dlq.inline():
        answer = client.post("/invoices", json={"item": "coffee"})
    assert (answer.status_code, answer.json()["detail"]) == (422, "rq_dlq.errors.Poison: there is no coffee")
    rq_dlq.assert_dead(invoice, 1, reason="poison")
