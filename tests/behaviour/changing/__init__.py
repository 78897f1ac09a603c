"""What operators do to chosen messages, at once or by a plan."""
