"""Is the suite able to see a fault in the Lua? Each mutant is one; a test has to fail on it.

Each Lua module gets one fault at a time, and runs against the tests that reach it. A survivor means a missing
test, or is explained in `tests/proofs/mutants/explained.yaml`; an explanation without its mutant is an error.
"""
