"""Managing a whole queue: pause, reset, delete.

`delete` removes all keys of a queue with one UNLINK, with the messages in it; Redis frees the memory in
another thread. Purging in chunks first would also be bounded, but a queue with producers might never become
empty, a half-deleted one would have lost messages without being gone, and leased messages cannot be purged.
The totals go with the queue, so the reply has the number of messages (I1), and the call is numbered: a
repetition after a lost reply does not delete messages that were sent in between. Committed messages of jobs
are moved into the queue first, since the commits for other queues are stored with them. The registers of
senders stay for their hour. `core/queues/registry.py` says how programs that have the queue open learn of it.

This room stands above `jobs`, whose messages it moves.
"""
