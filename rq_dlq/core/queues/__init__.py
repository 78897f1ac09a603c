"""The state of a queue object, the list of the queues, and the meaning of their names."""
