"""Results of messages."""
