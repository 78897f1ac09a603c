"""The tests of the library, the proofs of its promises, and the benchmarks.

`CONTRIBUTING.md` says how they are written and run. What they are built on, each with its reasons:

- `tests/variants.py`: a broker has two colours and runs on two kinds of server. A test runs in one of the
  four variants, which its name draws.
- `tests/tables.py`: a table of values is one case. Its rows differ in values, not in servers.
- `tests/servers`: the servers, and `tests/servers/warm.py` the processes that begin warm. The tests run on
  the embedded server, whatever is on the PATH: a stranger, a maintainer and CI see the same. Of several
  servers that `RQ_DLQ_TEST_SERVER` names, each file of tests draws one. In CI the commit draws, so two
  commits run a file on both, and a failure says on which.
- `tests/needs.py`: what is not here, such as Java, gets one line at the end of a run. In CI it is a failure.
- `tests/stranger.py`: CI is a stranger, too, in a clone without servers, Java, a browser and linters. The
  commit draws a part of the tests (`tests/part.py`). It fails if fewer ran than it promises, or if more than
  one in twenty was skipped.
- `tests/for_change.py`: the tests of a change are chosen by what each test ran.
- `tests/house.py`: how the rooms of the product depend on each other, and how large they are.
- `tests/verbs`: one table has every verb; the tests of all verbs read it.
- `tests/model`: the models (T1, T2) and the stops (T4) of the proof under faults, as far as `pytest` runs
  them.
- `tests/spark`: one JVM for all of them. `tests/typing`: users' code, which meets both type checkers in `make
  types`.
- `tests/proofs` and `tests/benchmarks`: programs, which `pytest` leaves out; the programs of benchmarks run
  in `make bench`, before the benchmarks.
"""
