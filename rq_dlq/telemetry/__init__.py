"""Optional extras for monitoring queues and workers."""
