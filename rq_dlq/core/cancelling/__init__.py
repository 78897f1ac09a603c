"""Cancelling a message, even a leased one.

The message is gone at once (lua/cancel.lua), and its worker learns of it by one key of its own,
`rq:cancelled:NAME`, which it reads twice a second: a queue has no list of its workers, a subscription would
cost a connection for each process, and a poll of each queue would cost a command. The notice names queue, id
and token, stays when it is read (two containers may have one name), and expires after a minute. If it is
lost, the next extension says that the message is gone. If Spark holds the message, the cancel is refused: a
batch is settled by its token, without its ids.
"""
