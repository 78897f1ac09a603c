"""The loop of a driver in Python: a line of JSON in, a line out."""

from __future__ import annotations

import asyncio
import inspect
import json
import sys


async def serve(verbs: object) -> None:
    """Run what is asked for, until there is no more input. A verb is a method, or a coroutine method."""
    while line := await asyncio.to_thread(sys.stdin.readline):
        given = json.loads(line)
        verb = given.pop("verb")
        try:
            said = None if verb == "ready" else getattr(verbs, verb)(**given)
            reply = {"is": await said if inspect.isawaitable(said) else said}
        except Exception as error:  # noqa: BLE001 - what a verb raises is what is observed
            reply = {"error": f"{type(error).__name__}: {error}"}
        sys.stdout.write(json.dumps(reply) + "\n")
        sys.stdout.flush()
