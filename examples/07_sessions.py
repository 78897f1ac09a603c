"""A session: its acks and its sends take effect together, or not at all."""

from rq_dlq import Broker, RedeliveryPolicy

with Broker() as broker:
    orders = broker.queue("shop.orders", redelivery=RedeliveryPolicy(initial_delay=0, max_redeliveries=3))
    invoices = broker.queue("shop.invoices")
    orders.send_many({"order": n, "total": 9.9 * n} for n in range(1, 4))

    session = orders.session()  # or as a block, see below, which an error rolls back
    for order in session.claim(3):
        session.send(invoices, {"pay": order.body["total"]})
    session.rollback("the printer is on fire")
    print(f"rolled back: {invoices.stats().waiting} invoices, {orders.stats().waiting} orders wait again")

    with orders.session() as session:
        for order in session.claim(3):
            session.send(invoices, {"pay": order.body["total"]})
    print(f"committed: {invoices.stats().waiting} invoices, {orders.stats().waiting} orders")

    invoices.purge(all=True)
