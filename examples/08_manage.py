"""What an operator does: policies for many queues, and messages chosen by a condition."""

from rq_dlq import Broker, SharedDeadLetterStrategy

with Broker() as broker:
    # For all queues below "mail", at once and for what is queued already; fields merge, the closest wins.
    broker.policies.set(
        "mail.#", redelivery={"max_redeliveries": 0}, dead_letter=SharedDeadLetterStrategy("MAIL.DEAD")
    )

    for name in ("mail.eu", "mail.us"):
        queue = broker.queue(name)
        for tenant in ("a", "b"):
            queue.send({"to": "someone"}, headers={"tenant": tenant})
        for delivery in queue.claim(2):
            delivery.nack("mailbox full")

    for said in broker.queue("mail.eu").settings().sources:
        if said.source != "default":
            print(f"{said.field} = {said.value} (from {said.source})")

    dead = broker.queue("MAIL.DEAD")  # one name for what died in both
    print(dead.select().count_by("tenant"))
    print("brought back:", dead.select("tenant = 'a' and delivery_count < 5").redrive())
    print("removed:", dead.select("age < '1h'").remove())
    print("moved to the other queue:", broker.queue("mail.eu").select().move("mail.us"))

    broker.queue("mail.us").purge()
    broker.policies.remove("mail.#")
