"""The processes that work on queues or maintain them, and their reports."""
