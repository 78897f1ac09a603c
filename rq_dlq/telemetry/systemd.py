"""Notifies systemd, which started this process with Type=notify."""

from __future__ import annotations

import logging
import os
import socket

logger = logging.getLogger("rq_dlq.health")


class Systemd:
    """The socket of the service manager; removed from the environment, so that children do not use it.

    Attributes:
        watchdog: the longest time between two notifications that it allows, seconds; None: it needs none.
    """

    def __init__(self) -> None:
        address = os.environ.pop("NOTIFY_SOCKET", "")
        self._address = "\0" + address[1:] if address.startswith("@") else address  # an abstract socket
        microseconds, process = os.environ.pop("WATCHDOG_USEC", ""), os.environ.pop("WATCHDOG_PID", "")
        meant = address and microseconds.isdecimal() and process in {"", str(os.getpid())}
        self.watchdog = int(microseconds) / 1_000_000 if meant else None

    @property
    def listens(self) -> bool:
        """Whether there is a service manager."""
        return bool(self._address)

    def say(self, *lines: str) -> bool:
        """Send lines such as READY=1; returns whether they need not be sent again."""
        if not (self._address and lines):
            return True
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                sender.settimeout(1)
                sender.sendto("\n".join(lines).encode(), self._address)
        except OSError as error:
            logger.debug("cannot notify systemd: %s", error)
            return False
        return True
