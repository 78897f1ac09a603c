"""Reading many messages while others change them."""
