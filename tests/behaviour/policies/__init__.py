"""Settings of queues: the map of policies, what entries give, and what others damaged."""
