"""What a queue object knows, which queues there are, and what their names stand for."""
