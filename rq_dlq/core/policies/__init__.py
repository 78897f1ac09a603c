"""The map of policies, and what of it applies to a queue."""
