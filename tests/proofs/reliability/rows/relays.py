"""T46: relays of an outbox are killed, replies get lost, and a transaction is held open beside others.

Relays draw the form of the verbs unless `$RQ_DLQ_TEST_FORM` names it. Without PostgreSQL, as with
`RQ_DLQ_TEST_POSTGRES=none`, it runs on SQLite, which has one writer at a time: no transaction is held open.
"""

from __future__ import annotations

from importlib.util import find_spec

from tests.proofs.reliability.row import Figures, Row, Run, no_redis


def missing() -> str:
    """Why it cannot be run here; empty where it can."""
    if not find_spec("sqlalchemy") or not find_spec("psycopg"):
        return "no SQLAlchemy or psycopg here: pip install 'rq-dlq[dev]'"
    return no_redis()


def run(run: Run) -> Figures:
    """See `tests.proofs.reliability.relays`, which needs SQLAlchemy."""
    from tests.proofs.reliability import relays  # noqa: PLC0415

    return relays.run(run)


ROWS = (
    Row(
        "T46",
        "2 relays of an outbox on PostgreSQL, which heed its lock or not, are killed: anywhere, and between "
        "a call and its note; an hour passes before a restart; 10 % of the exchanges with Redis are lost; "
        "a transaction is held open for a minute beside later ones",
        "20 kills, 10,000 rows: each sent once, in the order of commit; none waits for the transaction",
        run,
        missing=missing,
    ),
)
