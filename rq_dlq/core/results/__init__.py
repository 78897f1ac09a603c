"""Results: what became of messages, for whoever asked for it."""
