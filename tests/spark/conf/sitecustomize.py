"""Spark's Python processes are forked from one that has imported what they need: tests/servers/warm.py.

Each would import it anew, for a second of CPU. What was started stays, passes signals on, ends as its fork.
"""

from __future__ import annotations

import os
import sys

WARM = "TEST_SPARK_WARM"
"""The variable that names the socket of the process that forks."""


def hand_over(path: str, module: str, words: list[str]) -> None:
    """Have the module run in a fork, with what this process has; does not return."""
    import json  # noqa: PLC0415 - in Spark's processes only, before they are what they are
    import signal  # noqa: PLC0415
    import socket  # noqa: PLC0415

    request = {
        "module": module,
        "words": words,
        "before": f"import sys; sys.path[1:] = {sys.path!r}",
        "session": False,
        "cwd": os.getcwd(),  # noqa: PTH109 - `pathlib` is one import more
        "env": {**os.environ},
    }
    told, telling = os.pipe()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asking:
        asking.connect(path)
        socket.send_fds(asking, [json.dumps(request).encode()], [0, 1, 2, telling])
    for descriptor in (0, 1, telling):  # whoever reads them waits for the fork alone
        os.close(descriptor)
    pid = int(os.read(told, 16))
    signal.signal(signal.SIGTERM, lambda *_: os.kill(pid, signal.SIGTERM))
    ended = os.waitstatus_to_exitcode(int(os.read(told, 16) or b"9"))
    if ended < 0:
        signal.signal(-ended, signal.SIG_DFL)
        os.kill(os.getpid(), -ended)
    os._exit(ended)


if WARM in os.environ and sys.orig_argv[1:2] == ["-m"] and sys.orig_argv[2].startswith("pyspark."):
    hand_over(os.environ[WARM], sys.orig_argv[2], sys.orig_argv[3:])
