"""Celery on Redis: https://docs.celeryq.dev."""

from __future__ import annotations

from typing import Any

from celery import Celery

from tests.benchmarks.peers import peer

app = Celery("bench", broker=peer.URL)
app.conf.task_ignore_result = True
handle = app.task(peer.work, name="work")
COMMAND = "{bin}/celery -A tests.benchmarks.peers.adapters.celery worker -l ERROR"
QUIET = "--without-gossip --without-mingle --without-heartbeat --prefetch-multiplier 100"


class CeleryOnRedis(peer.Peer):
    """A process for each core by default; for speed, one without a pool."""

    packages = ("celery", "kombu", "redis", "hiredis")
    setting = "results ignored; for speed the solo pool, prefetch 100, no gossip"
    workers = {
        peer.AS_IT_COMES: COMMAND,
        peer.FOR_SPEED: f"{COMMAND} -P solo {QUIET}",
        peer.THREADS: f"{COMMAND} -P threads -c 8 {QUIET}",
    }
    left = [["LLEN", "celery"], ["HLEN", "unacked"]]
    crash = "running tasks lost (acks_late: redelivered after the visibility timeout, 1 h)"
    fence = "no"
    leaves = "nothing"

    def send(self, body: Any) -> None:
        """Send one task."""
        handle.apply_async((body,))


if __name__ == "__main__":
    peer.serve(CeleryOnRedis())
