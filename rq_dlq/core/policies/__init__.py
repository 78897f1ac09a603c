"""The map of policies, and the part of it that applies to a queue."""
