"""A redrive that comes too early stops itself: its canary dies, and the rest stay where they are."""

from rq_dlq import Broker, RedeliveryPolicy

broker = Broker()
cards = broker.queue("example-cards", redelivery=RedeliveryPolicy(max_redeliveries=0))
cards.purge(all=True)
cards.dlq.purge(all=True)
cards.send_many(range(100))
bank = {"answers": False}


def work(*_: object) -> None:
    """The part of a worker, which is usually another process."""
    while deliveries := cards.claim(count=100):
        if bank["answers"]:
            cards.ack(deliveries)
        else:
            cards.nack(deliveries, ConnectionRefusedError("the bank does not answer"))


work()
(group,) = cards.dlq.groups()
print(f"{group.count} dead: {group.error}")

job = cards.dlq.redrive(group=group, canary=5).wait(progress=work)
print(f"{job.counts.moved} came back, then it {job.state}: {job.why}")
job.cancel()  # another one begins with all of them

bank["answers"] = True
job = cards.dlq.redrive(group=group, canary=5).wait(progress=work)
print(f"{job.counts.moved} came back, then it is {job.state}; {cards.stats().dead} are dead")
