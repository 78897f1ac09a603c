"""Messages on their way into a queue: what a send takes, refuses, returns, and when they are due."""
