"""How work is done: calls as values, the steps that generators yield, and the code that runs generators.

A function in `core` that does something is a generator. It yields a `Call` (one run of a verb), a `Command`
(a plain command), a `Pipeline` (several of these in one round trip) or a `Wait` (sleep until something is
pushed to a key), and receives the result. `Connections.run` and `AsyncConnections.run` carry them out. So
waiting claims, chunked sends, redrives and purges exist once, and are tested without a server. `drive` is the
one loop that runs a generator within another; only `together`, which runs several in step, and the two `run`
have loops of their own.

Of redis-py only the connections and the parser are used. Its command layer and its retries would run a call
twice after a lost reply.

A `Call` also reads its reply, and reads it differently if an earlier try may have been carried out: if a
repeated settlement finds that the message is gone, or settled by the same token, the first try did it. A
settlement of several messages may repeat earlier ones for some of them; only for these it is read so.
Producers try three times within a second, workers without limit.

The outcome of a call is *indeterminate* if one of its tries may have been carried out but no reply arrived.
`BrokerUnavailable.indeterminate` is false only if all tries failed before a server received the call.
`BrokerRefused.indeterminate` says the same of a call whose repetition was refused.

A verb that does not do what it was asked for replies with a word (`replies`), not with a number of its own. A
word means the same in every verb. A reader that meets another word does not guess: it says that another
version may have been installed while the process ran.

`senders` says how a repeated call counts once, `riding` how an ack travels with the next claim, `confirm` how
replicas confirm a send.
"""
