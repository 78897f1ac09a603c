"""The real Lua against a model of it, against every stop, and in every order of a small world."""
