"""Does `make reliability` see what it claims to exclude? Each bug is planted, and its row has to fail."""
