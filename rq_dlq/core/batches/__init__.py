"""Batches: several claims under one name, which any process can read, extend and settle."""
