"""A shop updates a search index: what waits is replaced, and a change during the work is not lost."""

from rq_dlq import Broker

broker = Broker()
index = broker.queue("index")


def changed(product: int, price: int) -> None:
    """A price has changed: the newest one is what the index needs."""
    body, name = {"product": product, "price": price}, f"product-{product}"
    sent = index.send(body, id=name, on_duplicate="replace")
    if sent.known == "leased":  # a worker may have read the old price already
        sent = index.send(body, id=name, on_duplicate="again")
    print(f"{price}: {sent.known or 'new'}, {sent.did or 'sent'}")


changed(7, 20)
changed(7, 19)
(delivery,) = index.claim()
print(f"indexing {delivery.body['price']}")
changed(7, 18)
changed(7, 17)
delivery.ack()
(delivery,) = index.claim()
print(f"indexing {delivery.body['price']}")
delivery.ack()


@broker.task(queue="mails", unique=lambda user, **_: user, unique_for="1h")
def remind(user: str, text: str = "your cart waits") -> None:
    """At most one mail an hour, whatever is sent."""
    print(f"to {user}: {text}")


for text in ("your cart waits", "your cart still waits"):
    print(remind.send("anna", text=text).known)
(delivery,) = broker.queue("mails").claim()
delivery.ack()
print(remind.send("anna").known)
