"""All benchmarks, one after the other."""

from tests.benchmarks import engine

engine.main()
