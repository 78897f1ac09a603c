"""The processes that work on queues or maintain them, and their reports.

A process writes its report into `rq:processes`: for workers that pass messages on
(`core/claiming/passing_on.py`), for overviews, and for `rq-dlq doctor`. Beside them stand, for a day and
under names of their own, the last reports of the relays of outboxes, and of versions of the library in use.
"""
