"""The façade, blocking: a method is a signature, a docstring, and the steps that it runs.

`rq_dlq/asyncio` says which of its files are generated. `base` imports the embedded server only when there is
no other.
"""
