"""Every step that a script can take, in every branch of it, and what may be gone where it was cut off."""

from __future__ import annotations

from collections import Counter
from collections.abc import Set as AbstractSet
from functools import partial

from rq_dlq.core.batches import calls as batch_calls
from rq_dlq.core.managing import calls as managing_calls
from rq_dlq.core.sessions import calls as session_calls
from rq_dlq.core.settling import calls as settling_calls
from tests.model.calls import (
    AT_ONCE_DEAD,
    DISCARD,
    NEW,
    NOT_THE_TRANSIENT,
    SPENT,
    Step,
    T,
    asked,
    both,
    by_worker,
    cancel,
    claim,
    claim_nothing,
    claim_the_spent,
    claim_what_outlived,
    commit,
    dead_letter,
    discarding,
    divide,
    expire,
    expire_now,
    held,
    later,
    of_the_dead,
    of_the_returned,
    offer_redrive,
    paused,
    prioritize,
    purge,
    redrive,
    regroup,
    reindex,
    remembering,
    resend,
    retire,
    scan,
    set_policy,
    sweep,
    there,
    to_the_dead,
    told,
    transfer,
    under,
    unique,
    with_suspects,
)
from tests.verbs import VERBS

NONE: frozenset[str] = frozenset()

# name: the call, and the messages that may be gone (or come) where it was cut off
STEPS: dict[str, tuple[Step, AbstractSet[str]]] = {
    **{verb.name: (verb.call, verb.cut_off) for verb in VERBS.values()},
    "send delayed": (lambda w: w.queue.send_call(*NEW, delay=1_000), {"n1", "n2"}),
    "send with ttl": (lambda w: w.queue.send_call(*NEW, ttl=10_000), {"n1", "n2"}),
    "send all": (lambda w: w.queue.send_call(*NEW, delay=1_000, ttl=10_000), {"n1", "n2"}),
    "send, default ttl": (under({"expiry": "5000 - -"}, lambda w: w.queue.send_call(*NEW)), {"n1", "n2"}),
    "send, no ttl": (under({"expiry": "never"}, lambda w: w.queue.send_call(*NEW, ttl=9)), {"n1", "n2"}),
    "send, ttl bounds": (
        under({"expiry": "- 1 5000"}, lambda w: w.queue.send_call(*NEW, delay=1_000, ttl=9_999)),
        {"n1", "n2"},
    ),
    "resend, new ttl": (resend("replace", "r1", "e1", "s1", ttl=10_000, body=b"y" * 3_000), NONE),
    "resend, the long": (resend("replace", "r1", "e1", body=b"z"), NONE),
    "debounce": (resend("debounce", "s1", "s2", "n1", delay=1_500, priority=9), {"n1"}),
    "debounce, long ago": (later(3, resend("debounce", "s1", "s2", delay=1_500)), NONE),
    "resend the dead": (resend("redrive", "d1", "x1", "gone", "n1", delay=500), {"n1"}),
    "resend the dead, told": (told(resend("redrive", "d1", "gone")), NONE),
    "resend what is in work": (resend("again", *T, "r1", "n1"), {"n1"}),
    "resend the unique": (resend("redrive", "r1", "l1", "d1", "n1", known_for=9_000), {"n1"}),
    "ack, asked again": (asked(lambda w: settling_calls.ack(w.keys, held("T", *T))), NONE),
    "ack some, asked again": (asked(lambda w: settling_calls.ack(w.keys, held("T", "l1", "l3"))), NONE),
    "ack, asked again, remembered": (
        remembering(asked(lambda w: settling_calls.ack(w.keys, held("T", *T)))),
        NONE,
    ),
    "ack, unique": (unique(lambda w: settling_calls.ack(w.keys, held("T", *T))), set(T)),
    "ack a claim, asked again": (asked(lambda w: batch_calls.ack_claim(w.keys, "T")), NONE),
    "commit, asked again": (asked(commit), {"n1", "n2", "to/n3", "to/n4"}),
    "nack, asked again": (asked(lambda w: w.nack("T", *T)), NONE),
    "nack to death, asked again": (asked(lambda w: w.nack("T", *T, policy=AT_ONCE_DEAD)), NONE),
    "nack to death, asked again, discarding": (
        discarding(asked(lambda w: w.nack("T", *T, policy=AT_ONCE_DEAD))),
        set(T),
    ),
    "release, asked again": (asked(lambda w: settling_calls.release(w.keys, held("T", *T))), NONE),
    "sweep, asked again": (asked(sweep()), NONE),
    "cancel, asked again": (asked(cancel("l1")), {"l1"}),
    "claim, waiting": (claim(9, patience=1_000), NONE),
    "claim nothing, waiting": (claim_nothing, NONE),
    "claim with all maintenance": (later(200, claim()), NONE),
    "claim again": (lambda w: w.queue.claim_call("T", 3), NONE),
    "claim as a worker": (claim(suspects="alone"), NONE),
    "claim a suspect": (with_suspects("alone"), NONE),
    "claim past suspects": (with_suspects("none"), NONE),
    "claim the dead": (claim(part="dead"), NONE),
    "claim the dead, late": (later(200, claim(part="dead")), NONE),
    "claim the expired": (claim(part="expired"), NONE),
    "claim, paused": (paused(later(200, claim(patience=1_000))), NONE),
    "claim, few in flight": (under({"max_in_flight": "5"}, claim()), NONE),
    "claim, discarding": (discarding(later(200, claim())), {"l3", "e1"}),
    "claim, to the dead": (to_the_dead(later(200, claim())), NONE),
    "claim the spent": (under({"redelivery": SPENT}, claim_the_spent), NONE),
    "claim the spent, discarding": (
        under({"redelivery": SPENT, "dead_letter": DISCARD}, claim_the_spent),
        {"l1"},
    ),
    "claim what outlived": (claim_what_outlived, NONE),
    "claim what outlived, discarding": (discarding(claim_what_outlived), {"l3", "e1"}),
    "ack some": (lambda w: settling_calls.ack(w.keys, held("T", "l1", "l3")), set(T)),
    "ack the dead": (of_the_dead(lambda w: settling_calls.ack(w.keys, held("D2", "d1"))), {"d1"}),
    "nack without delay": (lambda w: w.nack("T", *T, delay=0), NONE),
    "nack past the ttl": (lambda w: w.nack("T", *T, delay=200_000), NONE),
    "nack past the ttl, discarding": (discarding(lambda w: w.nack("T", *T, delay=200_000)), {"l3"}),
    "nack past the ttl, to the dead": (to_the_dead(lambda w: w.nack("T", *T, delay=200_000)), NONE),
    "nack to death": (lambda w: w.nack("T", *T, policy=AT_ONCE_DEAD), NONE),
    "nack to death, discarding": (discarding(lambda w: w.nack("T", *T, policy=AT_ONCE_DEAD)), set(T)),
    "nack to death, the transient": (
        under({"dead_letter": NOT_THE_TRANSIENT}, lambda w: w.nack("T", *T, policy=AT_ONCE_DEAD)),
        {"l2"},
    ),
    "nack the dead": (of_the_dead(lambda w: w.nack("D2", "d1", "x1")), NONE),
    "poison, discarding": (discarding(lambda w: w.poisoned("T", *T)), set(T)),
    "poison the transient": (
        under({"dead_letter": NOT_THE_TRANSIENT}, lambda w: w.poisoned("T", *T)),
        {"l2"},
    ),
    "poison the dead": (of_the_dead(lambda w: w.poisoned("D2", "d1")), NONE),
    "release the dead": (of_the_dead(lambda w: settling_calls.release(w.keys, held("D2", "d1"))), NONE),
    "sweep in parts": (sweep(2), NONE),
    "sweep a worker's claim": (by_worker(sweep()), NONE),
    "sweep a worker's claim in parts": (by_worker(sweep(2)), NONE),
    "sweep to death, discarding": (discarding(sweep(policy=AT_ONCE_DEAD)), set(T)),
    "sweep the transient": (
        under({"dead_letter": NOT_THE_TRANSIENT}, sweep(policy=AT_ONCE_DEAD)),
        {"l2"},
    ),
    "sweep the dead": (of_the_dead(sweep()), NONE),
    "expire, discarding": (discarding(expire()), {"e1"}),
    "expire, to the dead": (to_the_dead(expire()), NONE),
    "expire the transient, to the dead": (
        under({"dead_letter": '{"expired": "dead", "transient": "discard"}'}, expire()),
        NONE,
    ),
    "retire in parts": (retire(2), {"d1", "x1", "gone"}),
    "regroup in parts": (regroup(1), NONE),
    "reindex in parts": (reindex(1), NONE),
    "redrive by id": (redrive("dead", "x1", "r1"), NONE),
    "redrive the expired": (redrive("expired"), NONE),
    "purge scheduled": (purge("scheduled"), {"s1", "s2"}),
    "purge dead": (purge("dead"), {"d1", "x1"}),
    "purge by id": (purge("dead", "x1"), {"x1"}),
    "purge expired": (purge("expired"), {"gone"}),
    "dead-letter the scheduled": (of_the_returned(dead_letter("scheduled", "s1", "l2")), NONE),
    "dead-letter the expired": (dead_letter("expired", "gone"), NONE),
    "dead-letter, discarding": (discarding(dead_letter("ready", "r1", "e1", "s1")), {"r1", "e1"}),
    "expire now the scheduled": (of_the_returned(expire_now("scheduled", "s1", "l2")), NONE),
    "expire now, discarding": (discarding(expire_now("ready", "r1", "e1", "s1")), {"r1", "e1"}),
    "expire now, to the dead": (to_the_dead(expire_now("ready", "r1", "e1")), NONE),
    "prioritize down": (of_the_returned(prioritize("ready", 0, "r1", "e1", "x1")), NONE),
    "prioritize the scheduled": (of_the_returned(prioritize("scheduled", 7, "s1", "s2", "l2", "r1")), NONE),
    "move the scheduled": (of_the_returned(transfer("scheduled", "s1", "l2")), both("s1", "l2")),
    "move the dead": (transfer("dead", "d1", "x1"), both("d1", "x1")),
    "move the expired": (transfer("expired", "gone"), both("gone")),
    "edit the dead": (offer_redrive(""), NONE),
    "copy": (of_the_returned(transfer("ready", "r1", "r2", "e1", "x1", keep=True)), there("r1", "e1", "x1")),
    "copy the scheduled": (of_the_returned(transfer("scheduled", "s1", "l2", keep=True)), there("s1", "l2")),
    "copy the dead": (transfer("dead", "d1", keep=True), there("d1")),
    "copy the expired": (transfer("expired", "gone", keep=True), there("gone")),
    "ack the rest of a claim": (of_the_returned(lambda w: batch_calls.ack_claim(w.keys, "T")), {"l1", "l3"}),
    "ack a claim of the dead": (of_the_dead(lambda w: batch_calls.ack_claim(w.keys, "D2")), {"d1", "x1"}),
    "divide the rest of a claim": (of_the_returned(divide(1)), NONE),
    "hand on a claim": (divide(0), NONE),
    "send, remembering": (remembering(lambda w: w.queue.send_call(*NEW)), {"n1", "n2"}),
    "ack, remembered": (remembering(lambda w: settling_calls.ack(w.keys, held("T", *T))), set(T)),
    "commit, strict": (partial(commit, strict=True), VERBS["commit"].cut_off),
    "commit, remembered": (remembering(commit), VERBS["commit"].cut_off),
    "ack, told": (told(lambda w: settling_calls.ack(w.keys, held("T", *T))), set(T)),
    "ack all, told": (told(lambda w: session_calls.ack_all(w.keys, held("T", *T))), set(T)),
    "nack, told": (told(lambda w: w.nack("T", *T)), NONE),
    "poison, told": (told(lambda w: w.poisoned("T", *T)), NONE),
    "release, told": (told(lambda w: settling_calls.release(w.keys, held("T", *T))), NONE),
    "sweep, told": (told(sweep()), NONE),
    "redrive, told": (told(redrive("dead")), NONE),
    "resume": (paused(lambda w: managing_calls.pause(w.keys, paused=False)), NONE),
    "pause a key": (lambda w: managing_calls.pause_lane(w.keys, "key", "k", paused=True), NONE),
    "scan the dead": (scan("dead"), NONE),
    "configure anew": (
        under({"expiry": "never"}, lambda w: w.queue.configure_call({"max_in_flight": "9"})),
        NONE,
    ),
    "remove a policy": (set_policy(b"", b"{}"), NONE),
}

COMMITS = {"commit", "commit, strict"}
MOVES = {"transfer", "offer_redrive", "move the scheduled", "move the dead", "move the expired"}


def moved_in_part(seen: Counter[str], message_id: str) -> bool:
    """Whether a message that was to be moved is in both queues; it is never in neither."""
    places = (message_id in seen) + (f"to/{message_id}" in seen)
    assert places, f"{message_id} is in neither queue"
    return places > 1


def committed_in_part(seen: Counter[str]) -> bool:
    """Whether some of what a session did is done, but not all; what it acked is gone only with all sent."""
    sent = [name in seen for name in ("n1", "n2", "to/n3", "to/n4")]
    kept = [name in seen for name in ("l1", "l2")]
    assert all(sent) or all(kept), "acked, though not all was sent"
    return any(sent) and not (all(sent) and not any(kept))
