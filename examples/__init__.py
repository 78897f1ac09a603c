"""Examples: short programs, each to be read in a minute. Installed as `rq_dlq.examples`."""
