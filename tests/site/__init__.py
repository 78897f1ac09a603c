"""The site: the pages of docs/ and the reference, made from the code.

$ python -m tests.site        makes build/site; a warning or a dead link fails
"""
