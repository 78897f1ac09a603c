"""The cases of `tests/cases/behaviour.yaml`: what other systems do, end to end on the broker.

One function a case: `art_b01` is ART-B01. Its parameters say what it runs on: a `broker` and its `clock`,
or a `server` that can be killed and started again. A case that is wanted otherwise than by its system begins
its docstring with the verdict of its row. What is not run stands in `NOT_RUN`, with the reason.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable

from tests.behaviour.cases import (
    artemis_dead_letters,
    artemis_expiry,
    artemis_management,
    artemis_redelivery,
    classic_dead_letters,
    classic_redelivery,
    jetstream,
    nats,
)

Case = Callable[..., Awaitable[None]]

MODULES = (
    artemis_dead_letters,
    artemis_redelivery,
    artemis_expiry,
    artemis_management,
    classic_redelivery,
    classic_dead_letters,
    nats,
    jetstream,
)
CASES: dict[str, Case] = {
    name.upper().replace("_", "-"): function
    for module in MODULES
    for name, function in inspect.getmembers(module, inspect.iscoroutinefunction)
    if re.fullmatch(r"(art|cls|stn)_b\d+|jsb_\d+", name)
}

NOT_RUN = {
    "ART-B06": "a message that dies goes to one place; two copies are for a consumer of the DLQ to send",
    "ART-B18": "a queue is there as soon as it is sent to, so no message can be without a way",
    "ART-B25": "not built: a message cannot be kept from the worker that failed on it",
    "ART-B37": "a claim is a delivery in any case; what was not looked at is released, which is not charged",
    "ART-B52": "a key belongs to no consumer, so none has to be told that it may move",
    "ART-B70": "there is one queue of a name, not several behind one address",
    "ART-B104": "a message keeps its place by age under a new priority: it is not put at the end",
    "CLS-B45": "an id is in a queue once, so the store holds no duplicate that could be found later",
    "STN-B11": "no queue drops old messages for new ones",
    "STN-B24": "a queue is kept whoever listens; there is no group that begins anew at the first message",
    "JSB-11": "what used up its redeliveries is a dead letter, so a higher limit finds none waiting",
}
