"""Verbs of operators: set policies for many queues, and select messages by a condition."""

from rq_dlq import Broker, SharedDeadLetterStrategy

with Broker() as broker:
    # For all queues below "mail", at once, also for queued messages. Fields merge; the most specific wins.
    broker.policies.set(
        "mail.#", redelivery={"max_redeliveries": 0}, dead_letter=SharedDeadLetterStrategy("MAIL.DEAD")
    )

    for name in ("mail.eu", "mail.us"):
        queue = broker.queue(name)
        for tenant in ("a", "b"):
            queue.send({"to": "someone"}, headers={"tenant": tenant})
        for delivery in queue.claim(2):
            delivery.nack("mailbox full")

    for field in broker.queue("mail.eu").settings().sources:
        if field.source != "default":
            print(f"{field.field} = {field.value} (from {field.source})")

    dead = broker.queue("MAIL.DEAD")  # the dead letters of both queues
    print(dead.select().count_by("tenant"))
    print("brought back:", dead.select("tenant = 'a' and delivery_count < 5").redrive())
    print("removed:", dead.select("age < '1h'").purge())
    print("moved to the other queue:", broker.queue("mail.eu").select(all=True).move("mail.us"))

    broker.queue("mail.us").purge(all=True)
    broker.policies.remove("mail.#")
