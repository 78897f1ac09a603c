"""Maintenance: the due work of any queue, done in small steps.

Claims also sweep, promote and expire (I15), a bounded number in each call; maintenance, in workers or `rq-dlq
maintain`, moves 50 messages per round trip and sweeps 20. `queue.maintain()` handles what was due when it
began, by the server's clock, and then once more what became due by that: schedules may fall due faster than
it sends.

*Rounds of maintenance* ask many queues in one batch, and one that cannot be reached must not hold up the
others. In a batch whose calls are `apart`, a dead node, TRYAGAIN or CLUSTERDOWN becomes the result of the
calls that it concerns (`NodeUnavailable`). None of them is repeated, since the next round asks again. On a
healthy cluster this costs no further round trip. A node that failed rests from such calls for ten seconds,
then 20, 40 and at most 60, until it answers, because a frozen one costs a timeout each time; the map is read
meanwhile, as a replica may take its place. If no queue can be reached, the process waits for Redis. If the
node with the list of queues is lost, the queues that are known are maintained.

Lost indexes are put back by lua/reindex.lua.
"""
