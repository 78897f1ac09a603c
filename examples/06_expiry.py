"""Messages with a time to live: a default, and the queue of expired messages."""

from datetime import timedelta

from rq_dlq import Broker, ExpiryPolicy

with Broker() as broker:
    quotes = broker.queue(
        "quotes",
        expiry=ExpiryPolicy(
            expiry_delay="50ms",  # for messages sent without a ttl
            retention="7d",  # how long expired quotes are kept
        ),
    )
    quotes.send({"price": 10.5})
    quotes.send({"price": 10.7}, ttl=timedelta(hours=1))

    # Claims and maintenance processes move expired messages. This loop waits for that.
    while not quotes.expired.browse():
        quotes.maintain()

    print("still good:", [quote.body for quote in quotes.peek()])
    print("too late:  ", [(late.body, late.reason) for late in quotes.expired.browse()])

    quotes.select(all=True).purge()  # so that the next run begins with nothing
    quotes.expired.purge(all=True)
