"""Dead letters: browse them, group them by error, and redrive them."""

from rq_dlq import Broker, RedeliveryPolicy

broker = Broker()
mails = broker.queue("example-mails", redelivery=RedeliveryPolicy(initial_delay=0, max_redeliveries=1))
mails.purge(all=True)
mails.dlq.purge(all=True)
mails.send_many({"to": name} for name in ("ann", "bob", "cem"))

while deliveries := mails.claim(count=10):
    mails.nack(deliveries, ConnectionRefusedError("mail server 10.0.0.7 refused"))

for group in mails.dlq.groups():
    print(f"{group.count} x {group.reason}: {group.error} [{group.fingerprint}]")

(letter,) = mails.dlq.browse(limit=1)
print(letter.body, "died after", letter.delivery_count, "deliveries:")
for event in letter.history:
    print("  ", event.event, "at delivery", event.delivery, event.cause.message)

print(mails.dlq.redrive(group=group.fingerprint).counts.moved, "redriven")  # same ids, fresh budget
deliveries = mails.claim(count=10)
print(deliveries[0].redriven, "time redriven, history kept")
mails.ack(deliveries)
