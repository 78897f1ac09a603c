"""Values: messages and their outcomes, names, times, bodies as bytes. Nothing here uses Redis or a clock.

What both sides of a queue must agree on is here, each in a module that says why: records (`record`) and what
later versions add to them (`later`), states (`state`), the kinds of failures (`fingerprint`, `wording`),
times (`times`), what a program accepts (`signature`). `runner` has the worker, which brokers cannot import,
since it is built upon them.
"""
