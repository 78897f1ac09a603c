"""The operators' verbs for chosen messages, at once or by a plan."""
