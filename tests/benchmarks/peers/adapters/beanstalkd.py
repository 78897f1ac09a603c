"""Beanstalkd, whose server comes by itself, by greenstalk: https://beanstalkd.github.io."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import greenstalk

from tests.benchmarks.peers import peer

COMMAND = "{python} -m tests.benchmarks.peers.adapters.beanstalkd worker"
TUBE = "bench"


def connected() -> Any:
    """A client that sends to the tube, and takes from it."""
    place = urlsplit(peer.URL)
    return greenstalk.Client((place.hostname, place.port), use=TUBE, watch=TUBE)


class Beanstalkd(peer.Peer):
    """One job at a time, which is all that the client has."""

    packages = ("greenstalk",)
    setting = "in memory, one job at a time"
    workers = {peer.AS_IT_COMES: COMMAND}
    crash = "redelivered as soon as its connection is closed; otherwise when its ttr is over, 60 s"
    fence = "only while another worker holds it"
    leaves = "nothing"

    _client: Any = None

    def prepare(self) -> None:
        """Connect, and empty the tube."""
        self._client = self._client or connected()
        with suppress(greenstalk.TimedOutError):
            while True:
                self._client.delete(self._client.reserve(timeout=0))

    def send(self, body: Any) -> None:
        """Send one job."""
        self._client.put(json.dumps(body))

    def take_one(self) -> bool:
        """Reserve one job and delete it."""
        try:
            job = self._client.reserve(timeout=0)
        except greenstalk.TimedOutError:
            return False
        self._client.delete(job)
        return True


def run() -> None:
    """The worker."""
    client = connected()
    while True:
        job = client.reserve()
        peer.work(json.loads(job.body))
        client.delete(job)


if __name__ == "__main__":
    if "worker" in sys.argv:
        run()
    else:
        peer.serve(Beanstalkd())
