"""What is promised under faults, shown: one row a fault (`docs/reliability.md`).

`tests/proofs/reliability/rows` has a file for a fault, or a few. A row is a value: its name, the fault, the
goal, and a function that runs the trials and returns figures. It runs at three scales: bugs are planted under
the short one, the full one makes the table, the long one takes hours. Everything random follows from a seed.

- *The checker does not trust the queue.* Each process writes each call to its own journal before it makes it,
  and then the reply, one write per line, so a kill loses no line. The sums come from the journals alone
  (`tests/proofs/reliability/journal.py`), and are then compared with the queue's counts. Acks that the client
  repeats by itself are in the journals, too, because Redis does not know which token settled a message that
  is gone.
- *A power cut* is a SIGKILL; then every file is cut back to the length that a shim in front of libc saw
  synced, or a little more. Clock steps also come from a shim, so the Lua is the one that users run.
- *A row on a cluster* is a row of its own, T21c beside T21: the same trials on another site (`site.py`), most
  of them with a queue on each node.
- *Fuzzing (T24)* gives each parser the same time in turn until there are enough runs: by numbers of runs, two
  slow parsers take most of the time.
- *Orders of calls (T1)*, *a model (T2)* and *stops (T4)* are in `tests/model`.
"""
