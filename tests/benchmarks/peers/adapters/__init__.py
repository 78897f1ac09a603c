"""A program for each peer, named after it; `peer` says what they answer."""
