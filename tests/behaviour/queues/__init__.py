"""Names of queues, and what holds a whole queue."""
