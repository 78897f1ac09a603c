"""What open pages cost Redis and the server of the pages, and how fast the page of a large group is.

The pages are overviews, each with its stream of events; one runs with no page, one with one, one with many.

    python -m tests.benchmarks.web --queues 1000 --pages 100 --letters 1000000
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psutil
import redis
from rich.console import Console
from rich.table import Table

import rq_dlq
from tests import servers
from tests.benchmarks.groups import fill

ROUNDS = 9  # requests of a page, of which the median counts


@contextmanager
def serving(url: str) -> Iterator[tuple[str, psutil.Process]]:
    """The pages of this Redis: their address, and the process."""
    port = servers.free_port()
    words = [sys.executable, "-m", "rq_dlq", "web", "--listen", f"127.0.0.1:{port}", "--url", url]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        address = f"http://127.0.0.1:{port}"
        try:
            servers.wait_until(lambda: _answers(address))
            yield address, psutil.Process(process.pid)
        finally:
            process.terminate()


def _answers(address: str) -> bool:
    import httpx  # noqa: PLC0415 - only where the extra is installed

    try:
        return httpx.get(address).status_code == 200
    except httpx.TransportError:
        return False


async def watch(address: str, pages: int, seconds: float) -> int:
    """Hold so many pages open for so long; the bytes that came."""
    import httpx  # noqa: PLC0415 - only where the extra is installed

    came = 0

    async def hold(client: Any) -> None:
        nonlocal came
        async with client.stream("GET", f"{address}/live?page=overview") as answer:
            async for chunk in answer.aiter_bytes():
                came += len(chunk)

    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(limits=limits, timeout=None) as client:  # noqa: S113 - a stream does not end
        tasks = [asyncio.create_task(hold(client)) for _ in range(pages)]
        await asyncio.sleep(seconds)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return came


def look(raw: Any, server: psutil.Process) -> tuple[float, float, int]:
    """Seconds of CPU of Redis and of the server so far, and commands so far."""
    cpu, own = raw.info("cpu"), server.cpu_times()
    commands = raw.info("stats")["total_commands_processed"]
    return cpu["used_cpu_user"] + cpu["used_cpu_sys"], own.user + own.system, commands


def page(address: str, letters: int) -> float:
    """Milliseconds that the page of the largest group takes."""
    import httpx  # noqa: PLC0415 - only where the extra is installed

    with httpx.Client(base_url=address, timeout=60) as client:
        text = client.get("/queue", params={"name": "bench"}).text
        mark = text.partition("/group?queue=bench&amp;id=")[2][:12]
        times = []
        for _ in range(ROUNDS):
            began = time.perf_counter()
            answer = client.get("/group", params={"queue": "bench", "id": mark})
            times.append(time.perf_counter() - began)
        assert f"{letters // 2:,}" in answer.text, answer.text
    return statistics.median(times) * 1e3


def main(arguments: list[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--queues", type=int, default=1_000)
    parser.add_argument("--pages", type=int, default=100)
    parser.add_argument("--letters", type=int, default=20_000)
    parser.add_argument("--size", type=int, default=500, help="bytes of a body")
    parser.add_argument("--seconds", type=float, default=15.0)
    options = parser.parse_args(arguments)
    console = Console()
    table = Table("pages", "Redis, % of a core", "commands/s", "server, % of a core", "kB/s a page")
    with servers.running() as path, redis.Redis(unix_socket_path=path) as raw:
        url = f"unix://{path}"
        with rq_dlq.Broker(url) as broker:
            for number in range(options.queues):
                broker.queue(f"queue-{number}").send_many([1, 2, 3])
        with serving(url) as (address, server):
            for pages in (0, 1, options.pages):
                before = look(raw, server)
                came = asyncio.run(watch(address, pages, options.seconds))
                took = [now - then for now, then in zip(look(raw, server), before, strict=True)]
                shares = [spent / options.seconds for spent in took]
                kilobytes = came / options.seconds / max(pages, 1) / 1e3
                table.add_row(
                    f"{pages}",
                    f"{shares[0]:.1%}",
                    f"{shares[2]:,.0f}",
                    f"{shares[1]:.1%}",
                    f"{kilobytes:.1f}",
                )
        console.print(f"{options.queues:,} queues")
        console.print(table)
        fill(url, options.letters, options.size)
        with serving(url) as (address, _):
            took_ms = page(address, options.letters)
            console.print(
                f"{options.letters:,} letters: the page of a group of half of them {took_ms:.0f} ms"
            )


if __name__ == "__main__":
    main()
