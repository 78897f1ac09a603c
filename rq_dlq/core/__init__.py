"""The operations of clients, workers and operators, by subject; without I/O, for both colours.

A subject is a package. It has its calls (the arguments of a verb or command, and the reader of its reply),
its steps (generators that yield calls and receive their results) and its values. `_redis` runs the steps, in
either colour. Import modules directly: packages do not re-export their names.
"""
