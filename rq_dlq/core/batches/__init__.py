"""Batches: several claims under one name, which any process can read, extend and settle.

One call must not claim 50,000 messages. The tokens follow from the name (`NAME.0@QUEUE`, `NAME.1@QUEUE`, …),
so the name is enough to find the same messages again. `read_claim`, `extend_claim` and `ack_claim` work on
the messages that a claim still holds, so rows that were settled one by one are skipped. A claim only shrinks,
and a sweep leaves empty lines behind, so a slice of a claim's list means the same messages to a task that is
retried.

A large batch may take longer to claim than its lease lasts. So its claimer also renews the leases of the
first claims (`renewal`), until the batch is complete and the driver's heartbeat has its tokens.
"""
