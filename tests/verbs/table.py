"""The table: every verb of the broker. A new Lua file has its row here, or no test of all verbs runs."""

from __future__ import annotations

from rq_dlq import RedeliveryPolicy
from rq_dlq.core.batches import batches
from rq_dlq.core.batches import calls as batch_calls
from rq_dlq.core.changing import calls as choosing_calls
from rq_dlq.core.groups import calls as group_calls
from rq_dlq.core.jobs import calls as job_calls
from rq_dlq.core.jobs import jobs
from rq_dlq.core.keyed import calls as keyed_calls
from rq_dlq.core.keyed.renumber import renumber
from rq_dlq.core.managing import calls as managing_calls
from rq_dlq.core.pages import calls as page_calls
from rq_dlq.core.queues import calls as queue_calls
from rq_dlq.core.results import calls as result_calls
from rq_dlq.core.results.calls import Meant
from rq_dlq.core.sessions import calls as session_calls
from rq_dlq.core.settling import calls as settling_calls
from rq_dlq.core.settling import settle
from rq_dlq.core.upkeep import calls as upkeep_calls
from rq_dlq.errors import UnfitMessage
from tests.model.calls import (
    NEW,
    STAGED,
    T,
    ack_and_claim,
    both,
    cancel,
    cancel_gather,
    carry_gather,
    close_gather,
    commit,
    commit_job,
    dead_letter,
    divide,
    due,
    expire,
    expire_now,
    held,
    later,
    limit,
    move_staged,
    mute,
    of_the_returned,
    offer_redrive,
    open_gather,
    prioritize,
    purge,
    redrive,
    regroup,
    reindex,
    restore,
    retire,
    scan,
    scanned,
    schedule,
    send_children,
    set_policy,
    staged,
    start_redrive,
    steer_redrive,
    step_redrive,
    sweep,
    transfer,
    undo_redrive,
)
from tests.verbs.scene import DAY, JOB
from tests.verbs.verb import Again, Role, Verb, table

PRODUCER: frozenset[Role] = frozenset({"producer"})
CONSUMER: frozenset[Role] = frozenset({"consumer"})
MAINTENANCE: frozenset[Role] = frozenset({"maintenance"})
LOOKS: frozenset[Role] = frozenset({"maintenance", "read-only"})
HELD = frozenset(T)
EVERY = frozenset({"d1", "x1", "gone", *T, "r1", "r2", "e1", "s1", "s2"})  # of the queue

SENDING = (
    Verb(
        name="send", kind="send", roles=PRODUCER | CONSUMER, again=Again.SAME, refused=True,
        call=lambda w: w.queue.send_call(*NEW), cut_off=frozenset({"n1", "n2"}),
        say=lambda at: at.queue.send("x"),
    ),
    Verb(
        name="send_limited", kind="send", roles=PRODUCER | CONSUMER, again=Again.SAME, refused=True,
        call=lambda w: w.queue.send_call(*NEW, limited=True), cut_off=frozenset({"n1", "n2"}),
        say=lambda at: at.send_limited("x"),
    ),
    Verb(
        name="resend", kind="send", roles=PRODUCER | CONSUMER, again=Again.SAME, refused=True,
        call=lambda w: w.queue.resend_call(("r1", 9), *NEW, mode="replace"), cut_off=frozenset({"n1", "n2"}),
        say=lambda at: at.queue.send("x", id="x", on_duplicate="replace"),
    ),
    Verb(
        name="schedule", kind="configure", roles=PRODUCER | CONSUMER | MAINTENANCE, again=Again.NOTHING_LEFT,
        refused=True,
        call=schedule("every"), cut_off=frozenset({"n1"}),
        say=lambda at: at.queue.schedule("every", "x", every="1h"),
    ),
    Verb(
        name="due", kind="upkeep", roles=PRODUCER | CONSUMER | MAINTENANCE, again=Again.SAME, drains=True,
        call=due, cut_off=frozenset({"n1"}), say=lambda at: at.queue.maintain(),
    ),
    Verb(
        name="open_gather", kind="send", roles=PRODUCER | CONSUMER, again=Again.SAME, refused=True,
        call=open_gather, cut_off=frozenset({"n1"}), say=lambda at: at.gather(),
    ),
    Verb(
        name="send_children", kind="send", roles=PRODUCER | CONSUMER, again=Again.SAME, refused=True,
        call=send_children(*NEW), cut_off=frozenset({"n1", "n2", "to/g"}), say=lambda at: at.gather("x"),
    ),
    Verb(
        name="close_gather", kind="send", roles=PRODUCER | CONSUMER, again=Again.SAME, drains=True,
        call=close_gather, cut_off=frozenset({"l1", "n1", "to/g"}), say=lambda at: at.gather("x"),
    ),
    Verb(
        name="carry_gather", kind="upkeep", roles=PRODUCER | CONSUMER | MAINTENANCE,
        again=Again.NOTHING_LEFT, drains=True,
        call=carry_gather, cut_off=frozenset({"l1", "n1", "to/g"}), say=lambda at: at.gather("x"),
    ),
    Verb(
        name="cancel_gather", kind="send", roles=PRODUCER | CONSUMER, again=Again.NOTHING_LEFT, drains=True,
        call=cancel_gather, cut_off=frozenset({"r1", "s1", "n1", "to/g"}),
        say=lambda at: at.gather("x", cancels=True),
    ),
)  # fmt: skip

DELIVERING = (
    Verb(
        name="claim", kind="claim", roles=CONSUMER, again=Again.SAME, drains=True,
        call=lambda w: w.queue.claim_call("C", 3),
        say=lambda at: at.queue.claim(),
    ),
    Verb(
        name="ack", kind="settle", roles=CONSUMER, again=Again.DONE, drains=True,
        call=lambda w: settling_calls.ack(w.keys, held("T", *T)), cut_off=HELD,
        say=lambda at: at.queue.ack(at.held),
    ),
    Verb(
        name="ack_and_claim", kind="claim", roles=CONSUMER, again=Again.DONE, drains=True,
        call=ack_and_claim,
        cut_off=HELD,
        say=lambda at: at.consume(),
    ),
    Verb(
        name="nack", kind="settle", roles=CONSUMER, again=Again.DONE, drains=True,
        call=lambda w: w.nack("T", *T),
        say=lambda at: at.queue.nack(at.held, "boom"),
    ),
    Verb(
        name="poison", kind="settle", roles=CONSUMER, again=Again.DONE, drains=True,
        call=lambda w: w.poisoned("T", *T),
        say=lambda at: at.queue.poison(at.held, "bad"),
    ),
    Verb(
        name="release", kind="settle", roles=CONSUMER, again=Again.DONE, drains=True,
        call=lambda w: settling_calls.release(w.keys, held("T", *T)),
        say=lambda at: at.queue.release(at.held),
    ),
    Verb(
        name="pass_on", kind="settle", roles=CONSUMER, again=Again.DONE, drains=True,
        call=lambda w: w.queue.pass_on_call(held("T", *T)),
        say=lambda at: at.run(
            settle.pass_on(
                at.queue._core, [one._held for one in at.held], UnfitMessage("bad"), mark="", takers=()
            )
        ),
    ),
    Verb(
        name="progress", kind="settle", roles=CONSUMER, again=Again.SAME, refused=True,
        call=lambda w: settling_calls.progress(w.keys, held("T", T[0])[0], part=0.4, text="x"),
        say=lambda at: at.held[0].progress(0.4, "rows read"),
    ),
    Verb(
        name="extend", kind="settle", roles=CONSUMER, again=Again.SAME, drains=True,
        call=lambda w: settling_calls.extend(w.keys, held("T", *T), lease=60_000),
        say=lambda at: at.queue.extend(at.held),
    ),
    Verb(
        name="ack_all", kind="session", roles=CONSUMER, again=Again.SAME, drains=True,
        call=lambda w: session_calls.ack_all(w.keys, held("T", *T)), cut_off=HELD,
        say=lambda at: at.session(),
    ),
    Verb(
        name="commit", kind="session", roles=PRODUCER | CONSUMER, again=Again.SAME, refused=True,
        call=commit, cut_off=frozenset({"l1", "l2", "n1", "n2", "to/n3", "to/n4"}),
        say=lambda at: at.session("x"),
    ),
)  # fmt: skip

BATCHES = (
    Verb(
        name="extend_claim", kind="batch", roles=CONSUMER, again=Again.SAME, drains=True,
        call=lambda w: batch_calls.extend_claim(w.keys, ["T", "nobody's"], lease=60_000),
        say=lambda at: at.run(batches.extend_batch(at.keys, at.tokens, DAY)),
    ),
    Verb(
        name="ack_claim", kind="batch", roles=CONSUMER, again=Again.NOTHING_LEFT, drains=True,
        call=lambda w: batch_calls.ack_claim(w.keys, "T"), cut_off=HELD,
        say=lambda at: at.run(batches.ack_batch(at.keys, at.tokens)),
    ),
    Verb(
        name="divide_claim", kind="batch", roles=CONSUMER, again=Again.SAME, drains=True,
        call=divide(1),
        say=lambda at: at.run(batches.halve_batch(at.keys, at.tokens, "rest")),
    ),
    Verb(
        name="begin_batch", kind="batch", roles=CONSUMER, again=Again.SAME, drains=True,
        call=lambda w: batch_calls.begin_batch(w.keys, "s", batch=1, run="a"),
        say=lambda at: at.run(batch_calls.begin_batch(at.keys, "query", batch=1, run="a")),
    ),
    Verb(
        name="note_batch", kind="batch", roles=CONSUMER, again=Again.SAME, drains=True,
        call=lambda w: batch_calls.note_done(w.keys, "s", 1),
        say=lambda at: at.run(batch_calls.note_done(at.keys, "query", 1)),
    ),
)  # fmt: skip

JOBS = (
    Verb(
        name="commit_job", kind="job", roles=PRODUCER | CONSUMER | MAINTENANCE, again=Again.SAME,
        refused=True,
        call=staged(commit_job), cut_off=frozenset({"n1", "n2"}),
        say=lambda at: at.commit(JOB, at.staged),
    ),
    Verb(
        name="move_staged", kind="job", roles=PRODUCER | CONSUMER | MAINTENANCE, again=Again.GOES_ON,
        refused=True,
        call=staged(move_staged), cut_off=frozenset({"n1", "n2"}),
        say=lambda at: at.run(jobs.move(at.keys, "committed", at.committed)),
    ),
    Verb(
        name="drop_staged", kind="job", roles=PRODUCER, again=Again.NOTHING_LEFT, drains=True,
        call=staged(lambda w: job_calls.drop_staged(w.keys, "j", STAGED[0])),
        say=lambda at: at.run(jobs.drop(at.keys, JOB, [*at.staged])),
    ),
)  # fmt: skip

UPKEEP = (
    Verb(
        name="sweep", kind="upkeep", roles=CONSUMER | MAINTENANCE, again=Again.GOES_ON, drains=True,
        call=sweep(), say=lambda at: at.queue.maintain(),
    ),
    Verb(
        name="promote", kind="upkeep", roles=CONSUMER | MAINTENANCE, again=Again.GOES_ON, drains=True,
        call=later(40, lambda w: upkeep_calls.promote(w.keys, limit=10)), say=lambda at: at.queue.maintain(),
    ),
    Verb(
        name="expire", kind="upkeep", roles=CONSUMER | MAINTENANCE, again=Again.GOES_ON, drains=True,
        call=expire(), say=lambda at: at.queue.maintain(),
    ),
    Verb(
        name="step_redrive", kind="upkeep", roles=CONSUMER | MAINTENANCE, again=Again.GOES_ON, refused=True,
        call=step_redrive, say=lambda at: at.queue.dlq.redrive(all=True),
    ),
    Verb(
        name="retire", kind="upkeep", roles=CONSUMER | MAINTENANCE, again=Again.GOES_ON, drains=True,
        call=retire(), cut_off=frozenset({"d1", "x1", "gone"}), say=lambda at: at.queue.maintain(),
    ),
    Verb(
        name="regroup", kind="upkeep", roles=CONSUMER | MAINTENANCE, again=Again.GOES_ON, drains=True,
        call=regroup(), say=lambda at: at.queue.maintain(),
    ),
    Verb(
        name="reindex", kind="upkeep", roles=CONSUMER | MAINTENANCE, again=Again.GOES_ON, drains=True,
        call=reindex(), say=lambda at: at.queue.maintain(),
    ),
)  # fmt: skip

OPERATING = (
    Verb(
        name="redrive", kind="operate", roles=MAINTENANCE, again=Again.SAME, refused=True,
        selects="redrive",
        call=redrive("dead"), say=lambda at: at.queue.dlq.select(all=True).redrive(),
    ),
    Verb(
        name="start_redrive", kind="operate", roles=MAINTENANCE, again=Again.SAME, refused=True,
        call=start_redrive, say=lambda at: at.queue.dlq.redrive(all=True),
    ),
    Verb(
        name="offer_redrive", kind="operate", roles=MAINTENANCE, again=Again.NOTHING_LEFT, refused=True,
        call=offer_redrive("to"), cut_off=both("d1", "x1"),
        say=lambda at: at.queue.dlq.redrive(all=True, to=at.other),
    ),
    Verb(
        name="steer_redrive", kind="operate", roles=MAINTENANCE, again=Again.NOTHING_LEFT, refused=True,
        call=steer_redrive, say=lambda at: at.redrive("pause"),
    ),
    Verb(
        name="undo_redrive", kind="operate", roles=MAINTENANCE, again=Again.NOTHING_LEFT, refused=True,
        call=undo_redrive, say=lambda at: at.redrive("undo"),
    ),
    Verb(
        name="purge", kind="operate", roles=MAINTENANCE, again=Again.SAME, drains=True,
        selects="purge",
        call=purge("ready"), cut_off=frozenset({"r1", "r2", "e1"}), say=lambda at: at.queue.purge(all=True),
    ),
    Verb(
        name="cancel", kind="operate", roles=MAINTENANCE, again=Again.SAME, drains=True,
        call=cancel("l1"), cut_off=frozenset({"l1"}), say=lambda at: at.cancel(),
    ),
    Verb(
        name="dead_letter", kind="operate", roles=MAINTENANCE, again=Again.SAME, refused=True,
        selects="dead_letter",
        call=of_the_returned(dead_letter("ready", "r1", "e1", "x1")),
        say=lambda at: at.queue.select(all=True).dead_letter(),
    ),
    Verb(
        name="expire_now", kind="operate", roles=MAINTENANCE, again=Again.SAME, refused=True,
        selects="expire",
        call=of_the_returned(expire_now("ready", "r1", "e1", "x1")),
        say=lambda at: at.queue.select(all=True).expire(),
    ),
    Verb(
        name="deliver_now", kind="operate", roles=MAINTENANCE, again=Again.SAME, refused=True,
        selects="deliver_now",
        call=of_the_returned(lambda w: choosing_calls.deliver_now(w.queue.sender(), ids=["s1", "s2", "l2"])),
        say=lambda at: at.queue.select(all=True).deliver_now(),
    ),
    Verb(
        name="prioritize", kind="operate", roles=MAINTENANCE, again=Again.SAME, refused=True,
        selects="prioritize",
        call=of_the_returned(prioritize("ready", 7, "r1", "e1", "x1", "s1")),
        say=lambda at: at.queue.select(all=True).prioritize(9),
    ),
    Verb(
        name="transfer", kind="operate", roles=MAINTENANCE, again=Again.SAME, refused=True,
        selects="move",
        call=of_the_returned(transfer("ready", "r1", "r2", "e1", "x1")), cut_off=both("r1", "e1", "x1"),
        say=lambda at: at.queue.select(all=True).move(at.other),
    ),
    Verb(
        name="restore", kind="operate", roles=MAINTENANCE, again=Again.SAME, refused=True,
        call=restore, cut_off=frozenset({"n1", "n2"}),
        say=lambda at: at.restore(),
    ),
    Verb(
        name="delete", kind="operate", roles=MAINTENANCE, again=Again.SAME, drains=True,
        call=lambda w: queue_calls.delete(w.queue.sender(), force=True), cut_off=EVERY,
        say=lambda at: at.queue.delete(force=True),
    ),
    Verb(
        name="pause", kind="operate", roles=MAINTENANCE, again=Again.NOTHING_LEFT, drains=True,
        call=lambda w: managing_calls.pause(w.keys, paused=True), say=lambda at: at.queue.pause(),
    ),
    Verb(
        name="pause_lane", kind="operate", roles=MAINTENANCE, again=Again.NOTHING_LEFT, drains=True,
        call=lambda w: managing_calls.pause_lane(w.keys, "key", "k", paused=True),
        say=lambda at: at.queue.key("k").pause(),
    ),
    Verb(
        name="probe_lane", kind="operate", roles=MAINTENANCE, again=Again.SAME, drains=True,
        call=lambda w: managing_calls.probe_lane(w.queue.sender(), "d", seed=0.5),
        say=lambda at: at.probe(),
    ),
    Verb(
        name="limit_lane", kind="operate", roles=MAINTENANCE, again=Again.NOTHING_LEFT, refused=True,
        call=limit, say=lambda at: at.limit(),
    ),
    Verb(
        name="mute", kind="operate", roles=MAINTENANCE, again=Again.NOTHING_LEFT, refused=True,
        call=mute, say=lambda at: at.mute(),
    ),
    Verb(
        name="reset", kind="operate", roles=MAINTENANCE, again=Again.SAME, drains=True,
        call=lambda w: managing_calls.reset(w.keys), say=lambda at: at.queue.reset(),
    ),
)  # fmt: skip

CONFIGURING = (
    Verb(
        name="set_policy", kind="configure", roles=MAINTENANCE, again=Again.DONE, refused=True,
        call=set_policy(b"{}", b'{"max_in_flight": 1}'),
        say=lambda at: at.broker.policies.set("other", redelivery=RedeliveryPolicy()),
    ),
    Verb(
        name="configure", kind="configure", roles=PRODUCER | CONSUMER | MAINTENANCE, again=Again.NOTHING_LEFT,
        drains=True,
        call=lambda w: w.queue.configure_call(),
        say=lambda at: at.broker.queue(at.queue.name, outcomes=9).open(),
    ),
    Verb(
        name="renumber", kind="configure", roles=PRODUCER | CONSUMER | MAINTENANCE, again=Again.SAME,
        drains=True, call=lambda w: keyed_calls.renumber(w.keys, b"", limit=9),
        say=lambda at: at.run(renumber(at.keys)),
    ),
)  # fmt: skip

LOOKING = (
    Verb(
        name="result", kind="look", roles=PRODUCER | CONSUMER | LOOKS, again=Again.SAME,
        call=lambda w: result_calls.result(w.keys, [Meant("r1"), Meant("gone", 1)]),
        say=lambda at: at.result(),
    ),
    Verb(
        name="browse", kind="look", roles=LOOKS, again=Again.SAME,
        call=lambda w: page_calls.browse(w.keys, place="ready", ids=["r1"]),
        say=lambda at: at.queue.select(ids=["r1"]).browse(),
    ),
    Verb(
        name="scan", kind="look", roles=LOOKS, again=Again.SAME,
        call=scan("ready"), say=lambda at: at.run(scanned(at.keys, "ready")),
    ),
    Verb(
        name="groups", kind="look", roles=LOOKS, again=Again.SAME,
        call=lambda w: group_calls.groups(w.keys, limit=10), say=lambda at: at.queue.dlq.groups(),
    ),
    Verb(
        name="stats", kind="look", roles=LOOKS | PRODUCER | CONSUMER, again=Again.SAME,
        call=lambda w: queue_calls.stats(w.keys, "q"), say=lambda at: at.queue.stats(),
    ),
)  # fmt: skip

VERBS = table(
    *SENDING, *DELIVERING, *BATCHES, *JOBS, *UPKEEP, *OPERATING, *CONFIGURING, *LOOKING
)  # fmt: skip
SELECTED = {verb.selects: verb.name for verb in VERBS.values() if verb.selects}
"""The script behind each method of a selection."""
