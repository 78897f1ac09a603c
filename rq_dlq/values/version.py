"""The version of the package, and what it works with."""

__version__ = "0.1.0"

OLDEST_SERVER = (6, 2)
"""The first Redis that has what the scripts need; every Valkey has."""
OLDEST_READER = "0.1.0"
"""The first version that reads what this one writes."""
