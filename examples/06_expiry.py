"""Messages that are only worth something for a while: a default time to live, and where they go."""

from datetime import timedelta

from rq_dlq import Broker, ExpiryPolicy

with Broker() as broker:
    quotes = broker.queue(
        "quotes",
        expiry=ExpiryPolicy(
            expiry_delay="50ms",  # for who asks for no ttl
            retention="7d",  # how long expired quotes are kept for a look
        ),
    )
    quotes.send({"price": 10.5})
    quotes.send({"price": 10.7}, ttl=timedelta(hours=1))

    # Whoever claims, or a maintenance process, moves what has expired; here the wait is for just that.
    while not quotes.expired.browse():
        quotes.maintain()

    print("still good:", [quote.body for quote in quotes.peek()])
    print("too late:  ", [(late.body, late.reason) for late in quotes.expired.browse()])

    quotes.select().remove()  # so that the next run begins with nothing
    quotes.expired.purge(all=True)
