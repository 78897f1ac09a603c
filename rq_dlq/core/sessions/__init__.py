"""Sessions: messages are sent and acked together, or not at all."""
