"""Messages on their way out: which come next, when, to whom, and what waits for them."""
