"""What an import and a first word of the command line cost: CPU, in the peers' own environments."""

from __future__ import annotations

import resource
import subprocess
from collections.abc import Mapping
from statistics import median

from tests.benchmarks.peers.install import US, Environment

RUNS = 20
PROGRAMS = {  # what is run, in whose environment
    "python -c pass": (US, "{python} -c pass"),
    "import rq_dlq": (US, "{python} -c import~rq_dlq"),
    "from rq_dlq import Broker": (US, "{python} -c from~rq_dlq~import~Broker"),
    "from rq import Queue": ("rq", "{python} -c from~rq~import~Queue"),
    "from celery import Celery": ("celery", "{python} -c from~celery~import~Celery"),
    "rq-dlq --help": (US, "{bin}/rq-dlq --help"),
    "rq --help": ("rq", "{bin}/rq --help"),
    "celery --help": ("celery", "{bin}/celery --help"),
}


def cpu(command: list[str], variables: dict[str, str]) -> float:
    """Milliseconds of CPU of a process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=variables, stdout=subprocess.DEVNULL, check=True, cwd="/")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000


def costs(environments: Mapping[str, Environment]) -> dict[str, float]:
    """Medians, the programs taking turns; the first run, which writes the bytecode, does not count."""
    seen: dict[str, list[float]] = {}
    for run in range(RUNS + 1):
        for name, (whose, text) in PROGRAMS.items():
            if whose in environments:
                environment = environments[whose]
                command = [word.replace("~", " ") for word in environment.command(text)]
                variables = environment.variables()
                del variables["PYTHONPATH"]  # what is installed, not the checkout
                used = cpu(command, variables)
                if run:
                    seen.setdefault(name, []).append(used)
    return {name: median(found) for name, found in seen.items()}
