"""The outbox: messages are written to a table in the transaction of the program, and a relay sends them.

`Outbox` is for SQLAlchemy. `rq-dlq outbox MODULE:OUTBOX` is the relay.

`row` is what a program writes, `noted` what a relay notes, `ledger` what a relay needs of a database.

- *A row is encoded when it is written.* So what a send refuses is refused in the transaction, and the relay
  needs no types. It asks for its result if the queue does where it is written: the relay declares no
  settings, and may come before the workers that do.
- *The relay notes its calls before it makes them*, in one row of `rq_dlq_outbox_relays`: for each call its
  number, its queue, and the numbers of its rows. The same transaction deletes the rows of the calls before.
  Rows are inserted and deleted, and never updated, which would cost PostgreSQL another version of each. The
  note is changed only if it still is what this relay has read.
- *The numbers are not those of the rows.* Rows of a transaction that commits late have lower numbers than
  rows that are gone; Redis would take them for done. So calls are numbered by the relay, in the order in
  which it makes them, and a look begins at the lowest row there is, not above the last one.
- *One sender for an outbox, drawn once*, whose registers stay for ten years (`core/sending/noted.py`). A
  relay that was stopped for an hour between a call and its next note repeats the call under its number. A
  sender that was drawn at each start would do as well, but leave a register in each queue at each kill.
- *Numbers begin above Redis' clock*, in milliseconds, whenever a relay gets the lock. A database that was
  restored from a backup would otherwise give numbers that Redis has seen, and new rows would be deleted
  unsent.
- *The sender of a call has the place of its database*, a hash of its URL and of what PostgreSQL tells of
  itself. A copy made from a dump has the same sender, and its relay would make its own calls under numbers
  that the other one uses; Redis would take them for done. A call that was noted before the copy keeps its
  place, so it is made once. Where only the place has changed, as after a move, new calls have a new register,
  and nothing else is different.
- *The lock saves calls; the numbers keep the promise.* Two relays that run at once make the lowest noted
  calls, which are the same, and a relay that was suspended between its note and its call comes late with a
  number that is done. So a database needs no locks, and PostgreSQL's advisory lock may be lost to a proxy
  that shares connections.
- *Standing by instead of sharing.* Relays that share rows by SKIP LOCKED would reorder the rows of a queue;
  by queues, they would need to agree on which has which.
- *The order of commits is that of the numbers* as far as any program can tell: a transaction that begins to
  send after a commit gets a higher number, and a look that sees the later row sees the earlier one.
- *A queue that refuses is passed over*: its calls stay noted, and no more rows of it are noted, so that its
  order holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rq_dlq.outbox.relay import Relay
    from rq_dlq.outbox.sqlalchemy import Outbox

__all__ = ["Outbox", "Relay"]


def __getattr__(name: str) -> Any:
    """Import a name when it is first used: not every relay needs SQLAlchemy."""
    if name == "Relay":
        from rq_dlq.outbox.relay import Relay  # noqa: PLC0415

        return Relay
    if name == "Outbox":
        from rq_dlq.outbox.sqlalchemy import Outbox  # noqa: PLC0415

        return Outbox
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
