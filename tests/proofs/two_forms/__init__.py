"""Two forms of the broker side by side: the same calls must have the same replies and leave the same keys."""
