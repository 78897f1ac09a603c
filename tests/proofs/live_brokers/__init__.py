"""Brokers that run, beside rq_dlq: the same scenarios, and what each side does.

A scenario (`classic/`, `artemis/`, `nats_streaming/`, `jetstream.py`) is a few lines against a `Side`, in the
words of JMS and NATS, and is run on both sides at the same time. It returns facts; each fact that differs
needs a reason in the scenario, and a reason for what is the same is an error, so that none outlives its
difference.

Each side is driven by processes that can be killed: `java/`, `go/`, `jetstream_driver.py`, `here.py`. They
read and write lines of JSON, one for each verb: so a kill is a kill, and a driver is as easily written in
Java or Go. Both JMS brokers share one driver. `brokers.py` has what each broker needs, and starts it. What is
compiled or brought is in a cache, under the digest of its sources. All brokers run at once, since scenarios
wait most of the time; a row that differs is tried again, since two cores are busy at times.
"""
