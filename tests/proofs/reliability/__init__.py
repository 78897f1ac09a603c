"""What is promised under faults, shown: one row a fault (`docs/reliability.md`)."""
