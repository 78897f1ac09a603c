"""Values: messages and their outcomes, names, times, bodies as bytes. Nothing here uses Redis or a clock."""
