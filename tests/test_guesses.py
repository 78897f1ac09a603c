"""What users of other queues type gets a sentence with our name for it, and no type checker is misled."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

import rq_dlq
import rq_dlq.asyncio
from rq_dlq import ConfigurationError, InvalidMessage, PolicyError, Redeliver, RedeliveryPolicy
from rq_dlq.errors.guesses import sentence_for
from rq_dlq.errors.words import ARGUMENTS, ATTRIBUTES
from tests.tables import each_row

DLQ = "DLQ.orders"


@pytest.fixture
def shop() -> Iterator[dict[str, Any]]:
    """Objects by the names of their classes; nothing is asked of the server."""
    with rq_dlq.Broker("redis://localhost:1") as broker:
        orders = broker.queue("orders")
        delivery = rq_dlq.Delivery.__new__(rq_dlq.Delivery)
        yield {
            "Broker": broker,
            "Queue": orders,
            "Delivery": delivery,
            "DeadLetters": orders.dlq,
            "Task": broker.task(repr),
        }


GUESSES: list[tuple[Callable[[Any], object], type[Exception], str]] = [
    (lambda at: at["Queue"].enqueue("x"), AttributeError, "send(body) sends a message"),
    (lambda at: at["Queue"].add("x"), AttributeError, "send(body) sends a message"),
    (lambda at: at["Queue"].apply_async("x"), AttributeError, "send(body) sends a message"),
    (lambda at: at["Queue"].delay("x"), AttributeError, 'send(body, delay="5m") sends a message for later'),
    (lambda at: at["Queue"].enqueue_in(5, "x"), AttributeError, 'send(body, delay="5m")'),
    (lambda at: at["Queue"].receive(), AttributeError, "claim(count, wait=…) takes messages"),
    (lambda at: at["Queue"].receive_messages(), AttributeError, "claim(count, wait=…) takes messages"),
    (lambda at: at["Queue"].process(print), AttributeError, "decorate a function with @queue.handler()"),
    (lambda at: at["Queue"].empty(), AttributeError, "purge(all=True) removes all waiting messages"),
    (lambda at: at["Queue"].count(), AttributeError, "stats() counts the messages by state"),
    (lambda at: at["Queue"].failed_job_registry, AttributeError, "its dead letters are in queue.dlq"),
    (
        lambda at: at["Queue"].retry("id"),
        AttributeError,
        "queue.dlq.redrive(group=…) moves dead letters back",
    ),
    (lambda at: at["Broker"].enqueue("orders", "x"), AttributeError, "queue(name) returns a queue"),
    (lambda at: at["Broker"].actor(print), AttributeError, "@broker.task(queue=…)"),
    (lambda at: at["Broker"].periodic_task(60), AttributeError, '@broker.task(every="1h")'),
    (lambda at: at["Broker"].task(crontab="* * * * *"), TypeError, 'every="1h" or cron="0 7'),
    (lambda at: at["Queue"].every(60), AttributeError, "queue.schedule(name, body, every=…)"),
    (lambda at: at["Broker"].start(), AttributeError, "broker.run() runs the handlers"),
    (lambda at: at["Delivery"].delete(), AttributeError, "ack() reports success"),
    (lambda at: at["Delivery"].retry(countdown=5), AttributeError, "nack(error) redelivers by the policy"),
    (lambda at: at["Delivery"].payload, AttributeError, "the content is .body"),
    (lambda at: at["Delivery"].attempts_made, AttributeError, "delivery_count counts the deliveries"),
    (lambda at: at["Delivery"].change_visibility(60), AttributeError, "extend() restarts the lease"),
    (lambda at: at["DeadLetters"].retry_all(), AttributeError, "redrive(…) moves dead letters back"),
    (lambda at: at["DeadLetters"].clear(), AttributeError, "all of them with all=True"),
    (
        lambda at: at["Queue"].schedule("a", "x", countdown=5),
        TypeError,
        'a delay is delay="5m", seconds or a timedelta',
    ),
    (lambda at: at["Queue"].schedule("a", "x", expires=5), TypeError, 'the time to live is ttl="1h"'),
    (
        lambda at: at["Queue"].schedule("a", "x", max_retries=5),
        TypeError,
        "RedeliveryPolicy(max_redeliveries=…",
    ),
    (lambda at: at["Queue"].schedule("a", "x", job_id="a"), TypeError, 'the id is id="…"'),
    (lambda at: at["Queue"].handler(max_retries=5), TypeError, "RedeliveryPolicy(max_redeliveries=…"),
    (lambda at: at["Queue"].handler(autoretry_for=()), TypeError, "RedeliveryPolicy(max_redeliveries=…"),
    (lambda at: at["Queue"].handler(threads=5), TypeError, "@queue.handler(concurrency=…)"),
    (lambda at: at["Queue"].listen(), AttributeError, "decorate a function with @queue.handler()"),
    (lambda at: at["Queue"].jobs, AttributeError, "peek() reads the next messages"),
    (lambda at: at["Queue"].messages, AttributeError, "peek() reads the next messages"),
    (lambda at: at["Broker"].shared_task(print), AttributeError, "@broker.task(queue=…)"),
    (lambda at: at["Broker"].listen("a"), AttributeError, "@broker.queue(name).handler()"),
    (lambda at: at["Broker"].subscribe("a"), AttributeError, "@broker.queue(name).handler()"),
    (lambda at: at["Broker"].handler("a"), AttributeError, "@broker.queue(name).handler()"),
    (lambda at: at["Broker"].task(max_retries=5), TypeError, "RedeliveryPolicy(max_redeliveries=…"),
    (lambda at: at["Broker"].task(bind=True), TypeError, "annotated with Delivery"),
    (lambda at: at["Delivery"].dead_letter(), AttributeError, "poison(error) makes it a dead letter"),
    (lambda at: at["Delivery"].abandon(), AttributeError, "nack(error) redelivers by the policy"),
    (lambda at: at["Task"].starmap([1]), AttributeError, "send_many([(7,), (8,)]) sends many calls"),
    (lambda at: at["Task"].s(1), AttributeError, "send(…) runs it in a worker"),
    (lambda at: at["Task"].apply(), AttributeError, "send(…) runs it in a worker"),
    (lambda at: at["Task"].options(countdown=5), TypeError, 'a delay is delay="5m"'),
    (lambda at: at["Task"].options(eta=5), TypeError, 'a delay is delay="5m"'),
    (lambda at: at["Task"].options(delay_seconds=5), TypeError, 'a delay is delay="5m"'),
    (lambda at: at["Task"].options(retries=5), TypeError, "RedeliveryPolicy(max_redeliveries=…"),
    (lambda at: at["Task"].send(7, delay="5s"), InvalidMessage, ".options(delay=…).send(…)"),
    (lambda at: at["Task"].send(7, countdown=5), InvalidMessage, ".options(delay=…).send(…)"),
    (lambda _: RedeliveryPolicy(delay=5), TypeError, "initial_delay=… is the first delay"),  # type: ignore[call-arg]
    (lambda _: RedeliveryPolicy(jitter=0.5), TypeError, "collision_avoidance=0.5"),  # type: ignore[call-arg]
    (lambda at: at["Queue"].delete("x"), TypeError, "Queue.delete() takes 1 positional"),
    (lambda at: at["Queue"].handler(1, 2), TypeError, "Queue.handler() takes from"),
    (lambda at: at["Queue"].ack(), TypeError, "Queue.ack() missing 1 required"),
    (lambda at: at["Broker"].run(1), TypeError, "Broker.run() takes 1 positional"),
    (lambda at: at["Broker"].lifespan(), TypeError, "Broker.lifespan() missing 1 required"),
    (lambda _: RedeliveryPolicy(max_retries=5), TypeError, "RedeliveryPolicy(max_redeliveries=…"),  # type: ignore[call-arg]
    (lambda _: RedeliveryPolicy(retry_backoff=True), TypeError, "multiplier=…"),  # type: ignore[call-arg]
    (lambda _: Redeliver(countdown=5), TypeError, 'the delay is after="2m"'),  # type: ignore[call-arg]
    (lambda _: Redeliver(delay="1s"), TypeError, 'the delay is after="2m"'),  # type: ignore[call-arg]
    (lambda at: at["Task"].apply_async((1,), countdown=3), AttributeError, ".options(delay=…).send(…)"),
    (lambda at: at["Task"].delay(1), AttributeError, ".options(delay=…).send(…)"),
    (lambda at: at["Broker"].queue("a", ttl="1h"), PolicyError, 'expiry=ExpiryPolicy(expiry_delay="1h")'),
    (
        lambda at: at["Broker"].queue("a", timeout=5),
        PolicyError,
        'how long a call may run is timeout="20s" of',
    ),
    (lambda at: at["Broker"].queue("a", visibility_timeout=5), PolicyError, 'lease="30s" of the queue'),
    (
        lambda at: at["Broker"].queue("a", max_messages=5),
        PolicyError,
        "claim(count=…) sets how many messages",
    ),
    (
        lambda at: at["Broker"].queue("a", max_retries=5),
        PolicyError,
        "'max_retries': the queue has redelivery",
    ),
    (lambda at: at["Broker"].queue("a", retry=5), PolicyError, "RedeliveryPolicy(max_redeliveries=…"),
    (
        lambda at: at["Broker"].queue("a", dead_letter_queue=DLQ),
        PolicyError,
        "IndividualDeadLetterStrategy(…)",
    ),
    (lambda _: rq_dlq.Queue("orders"), TypeError, "broker.queue(name) makes a queue"),  # type: ignore[call-arg,arg-type]
    (lambda _: rq_dlq.Queue("orders", connection=redis.Redis()), TypeError, "broker.queue(name) makes"),  # type: ignore[call-arg,arg-type]
    (lambda _: rq_dlq.asyncio.Queue("orders"), TypeError, "broker.queue(name) makes a queue"),  # type: ignore[call-arg,arg-type]
    (lambda _: rq_dlq.Broker(redis.Redis()), ConfigurationError, "Broker(pool=client.connection_pool)"),  # type: ignore[arg-type]
    (lambda _: rq_dlq.Broker("localhost:6379"), ConfigurationError, "use redis://localhost:6379 (the forms"),
    (lambda _: rq_dlq.Broker("/tmp/redis.sock"), ConfigurationError, "use unix:///tmp/redis.sock ("),  # noqa: S108
    (lambda _: rq_dlq.Broker("me:secret@localhost"), ConfigurationError, "use redis://host:6379/0, "),
    (lambda _: rq_dlq.asyncio.Broker("http://localhost"), ConfigurationError, "use redis://host:6379/0, "),
    (lambda _: rq_dlq.Broker(connection=redis.Redis()), ConfigurationError, "pass a URL, Broker("),
    (lambda _: rq_dlq.Broker(host="here"), ConfigurationError, "pass a URL, Broker("),
    (lambda _: rq_dlq.asyncio.Broker(redis.Redis()), ConfigurationError, "Broker(pool=client"),  # type: ignore[arg-type]
]


WORDS: dict[str, dict[str, dict[str, str]]] = {
    "Celery": {
        "Queue.send": {
            "countdown": 'a delay is delay="5m"',
            "eta": "a time at=…",
            "expires": 'ttl="1h"; for its end expires_at=…',
            "queue": "broker.queue(name) names the queue",
            "routing_key": "broker.queue(name) names the queue",
            "task_id": 'the id is id="…"',
            "retry_policy": "RedeliveryPolicy(max_redeliveries=…",
            "link": "delivery.ack(send=[(queue, body)])",
            "link_error": "broker.observe(observer)",
            "ignore_result": 'results="1h"',
            "time_limit": 'timeout="20s" of @queue.handler',
            "args": "@broker.task makes one",
        },
        "Delivery.nack": {
            "countdown": 'a delay is delay="5m"',
            "requeue": "poison(error) makes it a dead letter",
        },
    },
    "RQ": {
        "Queue.send": {
            "job_id": 'the id is id="…"',
            "at_front": "priority=9 is the first",
            "depends_on": "delivery.ack(send=[(queue, body)])",
            "result_ttl": 'results="1h"',
            "failure_ttl": "dead letters stay until they are redriven or purged",
            "job_timeout": 'timeout="20s" of @queue.handler',
            "retry": "RedeliveryPolicy(max_redeliveries=…",
            "meta": "headers=",
            "on_failure": "broker.observe(observer)",
            "on_success": "delivery.ack(send=",
        },
        "Queue.claim": {"timeout": 'wait="5s" is how long'},
    },
    "dramatiq": {
        "Queue.send_many": {
            "max_retries": "RedeliveryPolicy(max_redeliveries=…",
            "max_age": 'the time to live is ttl="1h"',
            "store_results": 'results="1h"',
            "queue_name": "broker.queue(name) names the queue",
        },
        "Queue.consume": {"prefetch": "claim(count=…)"},
    },
    "BullMQ": {
        "Queue.send": {
            "jobId": 'the id is id="…"',
            "attempts": "RedeliveryPolicy(max_redeliveries=…",
            "backoff": "RedeliveryPolicy(max_redeliveries=…",
            "removeOnComplete": 'results="1h"',
            "removeOnFail": "dead letters stay",
            "lifo": "priority=9 is the first",
            "repeat": '@broker.task(every="1h")',
            "deduplication": 'the id is id="…"',
            "parent": "delivery.ack(send=",
        },
    },
    "SQS": {
        "Queue.send": {
            "MessageBody": "send(body) takes the body by its place",
            "DelaySeconds": 'a delay is delay="5m"',
            "MessageGroupId": 'key="customer-7" with per_key',
            "MessageDeduplicationId": 'the id is id="…"',
            "MessageAttributes": "headers=",
            "QueueUrl": "broker.queue(name) names the queue",
        },
        "Queue.claim": {
            "MaxNumberOfMessages": "claim(count=…)",
            "WaitTimeSeconds": 'wait="5s" is how long',
            "VisibilityTimeout": 'lease="30s" is how long',
        },
        "Delivery.extend": {"VisibilityTimeout": 'extend("1m") restarts the lease'},
        "Session.send": {
            "DelaySeconds": 'a delay is delay="5m"',
            "MessageBody": "send(body) takes the body by its place",
        },
        "Session.claim": {"max_messages": "claim(count=…)"},
        "Delivery.release": {"timeout": 'a delay is delay="5m"'},
        "Delivery.ack": {"multiple": "queue.ack(deliveries) acks several"},
    },
    "none": {
        "Queue.send": {
            "dealy": r"argument 'dealy'. Did you mean 'delay'?",
            "prio": "Did you mean 'priority'?",
            "expire_at": "Did you mean 'expires_at'?",
        },
        "Queue.claim": {"cuont": "Did you mean 'count'?"},
        "Delivery.nack": {"dely": "Did you mean 'delay'?"},
    },
}
"""Arguments that users of other libraries type, by verbs, and a part of the answer to each."""


@each_row(
    "verb, word, answer",
    [
        (verb, word, answer)
        for verbs in WORDS.values()
        for verb, words in verbs.items()
        for word, answer in words.items()
    ],
)
def test_a_wrong_word_is_answered(verb: str, word: str, answer: str, shop: dict[str, Any]) -> None:
    kind, name = verb.split(".")
    at = {**shop, "Session": shop["Queue"].session()}[kind]
    needed = {"send": ("x", "y")[: 2 if kind == "Session" else 1], "send_many": ([1],)}.get(name, ())
    with pytest.raises(TypeError) as told:
        getattr(at, name)(*needed, **{word: 5})
    assert str(told.value).startswith(f"{verb}() got an unexpected keyword argument {word!r}")
    assert answer in str(told.value)
    assert len(str(told.value).splitlines()) == 1


def test_the_table_has_the_words_of_five_libraries() -> None:
    words = {
        word
        for library, verbs in WORDS.items()
        if library != "none"
        for rows in verbs.values()
        for word in rows
    }
    assert len(words) >= 40
    assert len(WORDS) == 6


@each_row("number", range(len(GUESSES)))
def test_a_guess_is_answered(number: int, shop: dict[str, Any]) -> None:
    guess, kind, sentence = GUESSES[number]
    with pytest.raises(kind) as raised:
        guess(shop)
    assert sentence in str(raised.value)
    assert len(str(raised.value).splitlines()) == 1


@each_row("kind", sorted(ATTRIBUTES))
def test_no_answer_is_about_a_name_that_there_is(kind: str, shop: dict[str, Any]) -> None:
    for name in ATTRIBUTES[kind]:
        assert not hasattr(shop[kind], name), name
        with pytest.raises(AttributeError, match=f"'{kind}' object has no attribute '{name}': "):
            getattr(shop[kind], name)


def test_python_guesses_no_other_name(shop: dict[str, Any]) -> None:
    """Its own `Did you mean: '_queue'?` would stand after our sentence."""
    for kind, name in (("Task", "enqueue"), ("Broker", "handler"), ("Queue", "get")):
        with pytest.raises(AttributeError) as raised:
            getattr(shop[kind], name)
        assert raised.value.obj is None


@each_row("kind", sorted(ATTRIBUTES))
def test_no_guess_is_listed(kind: str, shop: dict[str, Any]) -> None:
    listed = {*dir(shop[kind]), *dir(type(shop[kind])), *dict(inspect.getmembers(type(shop[kind])))}
    assert not listed & {*ATTRIBUTES[kind]}
    assert "__init__" in listed


def test_a_class_may_have_a_name_that_is_a_guess(shop: dict[str, Any]) -> None:
    class Own(rq_dlq.Queue[Any]):
        def enqueue(self, body: object) -> object:
            return body

    own = Own(shop["Broker"], shop["Queue"]._core)
    assert own.enqueue("x") == "x"
    assert "enqueue" in dir(own)
    shop["Queue"].enqueue = len
    assert shop["Queue"].enqueue("abc") == 3
    assert "enqueue" in dir(shop["Queue"])
    with pytest.raises(
        AttributeError, match=r"^type object 'Queue' has no attribute 'enqueue': send\(body\)"
    ):
        _ = rq_dlq.Queue.enqueue  # type: ignore[attr-defined]


def test_no_answer_is_about_an_argument_that_there_is() -> None:
    queue = rq_dlq.Queue
    classes = RedeliveryPolicy.__init__, Redeliver.__init__
    for function in (queue.send, queue.send_many, queue.claim, queue.schedule, *classes):
        assert not {*inspect.signature(function).parameters} & {*ARGUMENTS}


HOT = {
    "Queue": "send send_many claim consume ack nack poison release extend",
    "Delivery": "ack nack poison release extend",
    "Session": "send claim",
    "Task": "send",
}


@each_row("colour", [rq_dlq, rq_dlq.asyncio])
@each_row("kind", HOT)
def test_the_hot_verbs_have_no_frame_around_them(kind: str, colour: Any) -> None:
    """Those that answer wrong words do so by a last parameter, which costs a call an empty dict."""
    for verb in HOT[kind].split():
        function = getattr(getattr(colour, kind), verb)
        assert inspect.unwrap(function) is function, verb


async def test_awaiting_is_the_same() -> None:
    queue = rq_dlq.asyncio.Broker("redis://localhost:1").queue("orders")
    with pytest.raises(AttributeError, match="claim"):
        await queue.receive()  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match=r"^Queue.send\(\) got an .* 'countdown': a delay is delay"):
        await queue.send("x", countdown=5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match='delay="5m"'):
        await queue.schedule("a", "x", countdown=5)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"^Queue\.delete\(\)"):
        await queue.delete("x")  # type: ignore[call-arg, arg-type]
    with pytest.raises(TypeError, match=r"^Broker\.run\(\)"):
        await queue._broker.run("x")  # type: ignore[call-arg, arg-type]


def test_other_mistakes_are_what_python_says(shop: dict[str, Any]) -> None:
    with pytest.raises(AttributeError, match=r"'Queue' object has no attribute 'sned'$") as raised:
        shop["Queue"].sned("x")
    assert (raised.value.name, raised.value.obj) == ("sned", shop["Queue"])
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'colour'$"):
        shop["Queue"].send("x", colour="red")
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'colour'$"):
        shop["Queue"].schedule("a", "x", colour="red")
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        shop["Queue"].send()
    assert sentence_for([]) == ""


def test_an_error_inside_a_property_is_not_taken_for_a_guess(shop: dict[str, Any]) -> None:
    class Odd(type(shop["Queue"])):  # type: ignore[misc]
        @property
        def count(self) -> int:
            return int(None.total)  # type: ignore[attr-defined]

    with pytest.raises(AttributeError, match="'NoneType' object has no attribute 'total'"):
        _ = Odd(shop["Broker"], shop["Queue"]._core).count


def test_objects_are_copied_and_pickled_as_before(shop: dict[str, Any]) -> None:
    assert copy.copy(shop["Queue"]).name == pickle.loads(pickle.dumps(shop["Queue"])).name == "orders"  # noqa: S301
