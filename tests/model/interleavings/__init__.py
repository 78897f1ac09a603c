"""T1: every order of the calls of a scope on a few messages, on the real Lua: nothing is sampled.

A breadth-first search over worlds. A world is what a queue's keys hold (`world`); each is put into Redis,
every call of the scope (`actions`, `verbs`) is made of it there (`server`), and what comes of it is
checked (`rules`, `replies`). Worlds that no script tells apart are one (`reduced`), so the search ends by
itself, with no bound on time, on workers or on how often they try: nothing else can happen to the messages.
`scopes` says which verbs meet in which search, and which are left to the model (T2) and to the stops (T4),
`walk` tells what was found.

A call whose reply may be lost is applied a second time. A long random walk without the reduction tests that
worlds which count as one are one.
"""
