"""Sessions: messages are sent and acked together, or not at all.

A session keeps the messages that it sends until its end. `commit` is one call: it checks every token, adds
the sent messages, and removes the acked ones. It sends first, so a call that is cut off loses nothing. Before
it acks, it records in the sender's register that everything is sent, so a commit can be repeated after a lost
reply even if its messages were consumed already. A rollback nacks each delivery, and each is judged by
itself.

A session that sends more than half a megabyte, and more than one message, is too large for one call: 100
bodies of 900 kB kept Redis busy for 0.6 s. It is staged (`staging`), so its sends become visible one at a
time. Its commit does not say which ids dead letters have blocked; `totals.known` counts them. A session
leaves no result: it acks by the list, and the error says so to waiting callers.

An ack that sends is a session of one message: `chain`.
"""
