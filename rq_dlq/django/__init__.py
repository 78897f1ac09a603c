"""Queues in a Django project: "rq_dlq.django" in INSTALLED_APPS, and `RQ_DLQ` in its settings.

The app has the label `rq_dlq`. It stands above the command line, which its management command runs with a
`Context` that has the settings of the project.

- *The broker is one of its own class* (`sending`), and so are its queues and tasks: `send` looks whether the
  connection of its database is in an atomic block. A hook in the core would have cost every send a look. The
  body is encoded in the transaction, and sent as `msgspec.Raw` after the commit, so no later change of an
  object reaches it, and nothing that a commit could undo talks to Redis before. It is not a session, whose
  first send to a queue asks Redis. One callback of `on_commit` for each call, so that a rollback to a
  savepoint takes back what was sent since. They are robust: one that fails stops no other.
- *A failure after the commit* is counted in the process, and told in a report like that of a worker
  (`ProcessReport.unsent`), which is forgotten after a day. It has neither queues nor roles, so lists of
  workers pass it over. The report follows a later send, since the failure is mostly that Redis was away.
- *Connections are closed by an observer.* Django's `close_old_connections` would also break off a connection
  in an atomic block. In an event loop the observer, which may not wait, hands the call to the thread of
  `sync_to_async`, where it comes before what the handler does there.
- *The result of a call has its story*: `get_result` must tell arguments and times when the message is gone.
  While it is there, they are read from its history. The time of the call and its `run_after` are in its body,
  so `get_result` tells what `enqueue` has told.
- *The id of a result names its queue*, and comes from requests. So one of a queue that is not in `QUEUES` is
  unknown: no request sees what is in the queues of other backends and programs.
- *The page is a model of the admin* without a table. So it needs no line in `urls.py`, stands in the index,
  and has the permissions of any model. It runs in an event loop and a thread of its own, since under WSGI
  there is none, and its reader continues between requests. Its forms have a mark signed for the user, in
  place of the token of Django's middleware.
"""

from __future__ import annotations

TYPE_CHECKING = False  # True for type checkers, without importing typing

if TYPE_CHECKING:
    from rq_dlq.django.sending import Broker

    broker: Broker

__all__ = ["broker"]


def __getattr__(name: str) -> object:
    """The broker of the project, made when it is first used: Django imports this before the settings."""
    if name == "broker":
        from rq_dlq.django.apps import broker  # noqa: PLC0415

        return broker()
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message)
