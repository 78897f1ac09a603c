"""Who acts, where no name is given."""

from __future__ import annotations

import os
import socket


def user_at_host() -> str:
    """The user of this process, and the host: "ana@web-1"; the number of a user that has no name."""
    import getpass  # noqa: PLC0415 - only operators need it

    try:
        user = getpass.getuser()
    except (KeyError, OSError, ImportError):  # as in a container that has no list of users
        user = f"uid {os.getuid()}" if hasattr(os, "getuid") else "somebody"
    return f"{user}@{socket.gethostname()}"
