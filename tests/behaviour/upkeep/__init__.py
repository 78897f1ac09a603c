"""What the queue does by itself as time passes: expiry, due messages, indexes that are repaired."""
