"""The processes that work on queues or maintain them, and their reports.

A process writes its report into `rq:processes`, for workers that pass messages on
(`core/claiming/passing_on.py`), for overviews, and for `rq-dlq doctor`. Reports of relays, and of programs
that only send, have neither queues nor roles, so lists of workers pass them over.
"""
