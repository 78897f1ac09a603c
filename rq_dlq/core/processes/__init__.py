"""The processes that work on queues or maintain them: what each reports of itself."""
