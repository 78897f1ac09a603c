"""T1: every order in which anyone can do anything to a few messages, on the real Lua: nothing is sampled.

A breadth-first search over worlds. A world is what a queue's keys hold (`world`); each is put into Redis,
everything that anyone can do (`actions`, `verbs`) is done to it there (`server`), and what comes of it is
checked (`rules`, `replies`). Worlds that no script tells apart are one (`reduced`), so the search ends by
itself, with no bound on time, on workers or on how often they try: nothing else can happen to the messages.
`scopes` says which verbs meet in which search, `walk` tells what was found.
"""
