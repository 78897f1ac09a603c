"""The site: the pages of docs/ and the reference, made from the code.

$ python -m tests.site        makes build/site; a warning or a dead link fails

- The tables of docs/README.md are the navigation, and llms.txt: a page that is not in it fails a test.
  README, CONTRIBUTING, CHANGELOG and lua/README.md are pages, too; their links are rewritten, since on GitHub
  they lead to files.
- The reference is generated, from the classes, the table of settings, the tree of commands and the metrics,
  so nothing is kept in step by hand. Verbs of public values that only the package calls (`as_wire`, ...) are
  left out by a list, `INNER`.
- tests/test_reference.py does without the site: it asks docstrings for each parameter, in tenths of a second.
  `make docs` takes ten seconds of CPU.
"""
