"""What nobody saw: faults of the Lua that no other test failed on (tests/proofs/mutants)."""
