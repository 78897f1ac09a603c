"""The façade, blocking: a method is a signature, a docstring, and the steps that it runs."""
