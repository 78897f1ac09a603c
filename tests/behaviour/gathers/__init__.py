"""A message that waits until others have ended."""
