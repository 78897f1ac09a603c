"""The same work through the queues that people use, beside this one; `__main__` tells the command.

`install` makes an environment for each peer, `adapters/` has a program for each, which runs with the peer's
own Python and speaks the protocol of `peer`. `measure` measures one of them, `report` makes the tables.
"""
