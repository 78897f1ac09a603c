"""Does `make reliability` see what it claims to exclude? Each planted bug is one, and its row has to fail on it."""
