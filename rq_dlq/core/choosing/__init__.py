"""Messages that somebody chooses: which they are, how many, and the verbs that change them."""
