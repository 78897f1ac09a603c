"""Optional extras for monitoring queues and workers.

`broker.observe` shows an `Observer` three things: a call that sends, the handling of a message, and its
outcome. Traces, reports of deaths and the log's fields are built on it, outside of the core.

- *Sends and settlements are seen in `core`*, through which both colours, workers, batches and sessions go. A
  settlement comes with the delivery if a handler or a `with` block has it (a weak dictionary by id and token
  tells), and with the `Cause` that was written to the history, so the fingerprint is that of the group.
- *The handling of a message is a context manager*, entered and left in the thread or the task that runs the
  handler, but outside of the part of it that a timeout may interrupt. It is left before the message is
  settled, so it measures the handler alone. The line of the log is written later, with the handler's context
  variables. `with` blocks of deliveries are handlings, too; inside a handler they are part of its own.
- *Cost*: without an observer, a look at an empty list for each send, call and settlement, which cannot be
  measured.
- Changes that Redis makes on its own have no process that could show them: lapses, expiry, the moves of
  maintenance.
"""
