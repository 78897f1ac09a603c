"""Delivering messages: to a claim, to a loop, from a view.

- `claim`: one claim, and how a client waits for something to claim without polling.
- `consume`: a loop, whose acks ride in the round trip of its next claim.
- `from_view`, `by_turns`: dead letters under a shared name, and under the name of a queue.
- `cut_off`: what an interrupted call gives back.
- `passing_on`: messages that this program does not accept rest for another version of it.

Suspects, which may have killed their worker, are claimed alone: lua/choose.lua and `worker/claiming.py`.
"""
