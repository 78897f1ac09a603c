"""The operators' verbs for chosen messages, at once or by a plan.

Each verb is one call per 20 messages, returns how many it changed and how many it left since they are being
processed (`Changed`), and can be repeated. Leased messages are counted, not changed: they are read before the
first change, by the same conditions, and the verb counts those that were claimed since, as it finds the token
in the state. A limit counts them last. A move to another queue is one call over the keys of both, so it is
atomic or refused (`CrossSlot`): queues that share a node begin with the same tag, `{shop}.orders`,
`{shop}.invoices`.

A verb that an operator confirms is a plan (`plans`).
"""
