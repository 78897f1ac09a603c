"""A PostgreSQL of one's own, Debian's, in a directory that goes with it."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

VARIABLE = "RQ_DLQ_TEST_POSTGRES"
"""The directory of another PostgreSQL's programs; one that is not there: go without."""
DEBIAN = Path("/usr/lib/postgresql")
OPTIONS = "-c fsync=off -c listen_addresses='' -c max_connections=60 -c shared_buffers=16MB"
NOBODY = "postgres"  # the server does not run as root


def programs() -> Path | None:
    """Where the programs are, of Debian's the newest release's; None: nowhere."""
    if own := os.environ.get(VARIABLE):
        return Path(own) if Path(own, "initdb").exists() else None
    found = sorted(DEBIAN.glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    return found[-1].parent if found else None


@contextmanager
def running() -> Generator[str]:
    """A server, as a URL of SQLAlchemy."""
    bin_ = programs()
    assert bin_ is not None
    home = Path(tempfile.mkdtemp(prefix="rq-pg-", dir="/tmp"))
    user = NOBODY if os.geteuid() == 0 else None
    if user:
        shutil.chown(home, user)
    data = home / "data"

    def run(*command: str | Path) -> None:
        subprocess.run(command, check=True, user=user, cwd=home, stdout=subprocess.DEVNULL)

    try:
        run(bin_ / "initdb", "-D", data, "-A", "trust", "-U", NOBODY, "--no-sync", "-E", "UTF8")
        run(bin_ / "pg_ctl", "start", "-w", "-D", data, "-o", f"{OPTIONS} -k {home}", "-l", home / "log")
        try:
            yield f"postgresql+psycopg://{NOBODY}@/postgres?host={home}"
        finally:
            run(bin_ / "pg_ctl", "stop", "-w", "-m", "immediate", "-D", data)
    finally:
        shutil.rmtree(home)
