"""The verbs of the broker as the tests know them: a row a Lua file, read by every test of all verbs."""

from tests.verbs.table import SELECTED, VERBS
from tests.verbs.verb import Again, Kind, Verb, check_all_tried, names, ran_on

__all__ = ["SELECTED", "VERBS", "Again", "Kind", "Verb", "check_all_tried", "names", "ran_on"]
