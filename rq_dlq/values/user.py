"""The default name of an operator."""

from __future__ import annotations

import os
import socket


def user_at_host() -> str:
    """The user and host of this process: "ana@web-1"; the user's number if there is no name."""
    import getpass  # noqa: PLC0415 - only operators need it

    try:
        user = getpass.getuser()
    except (KeyError, OSError, ImportError):  # for example in a container without a list of users
        user = f"uid {os.getuid()}" if hasattr(os, "getuid") else "somebody"
    return f"{user}@{socket.gethostname()}"
