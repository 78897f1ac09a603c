"""The version of the package, and the versions it works with."""

__version__ = "0.1.1"

OLDEST_SERVER = (6, 2)
"""The oldest Redis version that the Lua supports; it supports every Valkey version."""
OLDEST_READER = "0.1.0"
"""The oldest version that can read data written by this one."""
