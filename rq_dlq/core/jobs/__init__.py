"""Jobs of many tasks that write to a queue: all of their messages, or none."""
