"""Brokers that run, beside rq_dlq: the same scenarios, and what each side does.

A scenario (`classic/`, `artemis/`, `nats_streaming/`, `jetstream.py`) is a few lines against a `Side`, and is
run twice: on the other broker and here. It returns facts, which are compared; a scenario says why a fact may
differ. Each side is driven by processes that can be killed: `java/`, `go/`, `jetstream_driver.py`, `here.py`.
They read and write lines of JSON, one for each verb. `brokers.py` has what each broker needs, and starts it.
"""
