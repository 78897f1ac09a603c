"""RQ: https://python-rq.org."""

from __future__ import annotations

from typing import Any

from redis import Redis
from rq import Queue

from tests.benchmarks.peers import peer

queue = Queue("bench", connection=Redis.from_url(peer.URL))
COMMAND = f"{{bin}}/rq worker --url {peer.URL} --quiet bench"
PLAIN = f"{{bin}}/rq worker --url {peer.URL} --quiet --worker-class rq.SimpleWorker bench"


class Rq(peer.Peer):
    """The worker forks for each job; for speed, SimpleWorker does not."""

    packages = ("rq", "redis", "hiredis")
    setting = "result_ttl=0; for speed SimpleWorker"
    workers = {peer.AS_IT_COMES: COMMAND, peer.FOR_SPEED: PLAIN}
    left = [["LLEN", "rq:queue:bench"], ["ZCARD", "rq:wip:bench"]]
    crash = "failed, or retried if so set, after minutes"
    fence = "no"
    leaves = "nothing"

    def send(self, body: Any) -> None:
        """Send one job."""
        queue.enqueue(peer.work, body, result_ttl=0)

    def send_chunk(self, bodies: list[Any]) -> None:
        """Send many jobs."""
        queue.enqueue_many([Queue.prepare_data(peer.work, (body,), result_ttl=0) for body in bodies])


if __name__ == "__main__":
    peer.serve(Rq())
