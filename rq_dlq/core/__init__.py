"""What clients, workers and operators do, by subject; no I/O, so both colours share it.

A subject is a room. It has its calls (what one script or command is asked, and how its reply is read), its
steps (generators that yield calls and receive their results) and its values. `_redis` runs the steps, in
either colour. Whoever needs a module imports that: no room passes on the names of its modules.
"""
