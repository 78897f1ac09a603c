"""Results of messages, and those who wait for them."""
