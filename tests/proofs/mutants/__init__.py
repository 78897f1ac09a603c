"""Is the suite able to see a fault in the Lua? Each mutant is one; a test has to fail on it."""
