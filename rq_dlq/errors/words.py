"""The names of other queue libraries, with the advice to use ours: `errors/guesses.py` says it."""

from __future__ import annotations

from collections.abc import Mapping

_SEND = "send(body) sends a message, send_many(bodies) any number"
_LATER = 'send(body, delay="5m") sends a message for later'
_AGAIN = (
    '@broker.task(every="1h"), or cron="0 7 * * mon-fri", calls a task repeatedly; '
    "queue.schedule(name, body, every=…) sends a body repeatedly"
)
_CLAIM = "claim(count, wait=…) takes messages; each delivery has ack() and nack()"
_HANDLER = "decorate a function with @queue.handler(): it takes the queue's messages"
_TASK = "decorate a function with @broker.task(queue=…): its send(…) has a worker call it"
_RUN = "broker.run() runs the handlers in this process, `rq-dlq worker MODULE:BROKER` in its own"
_QUEUE = "queue(name) returns a queue, which need not be created first"
_LEASE = (
    'how long a delivery may be held is lease="30s" of the queue; how long a call may run is '
    'timeout="20s" of @queue.handler'
)
_URL = 'pass a URL, Broker("redis://host:6379/0"), or a redis-py pool, Broker(pool=client.connection_pool)'


def table(*rows: tuple[str, ...]) -> dict[str, str]:
    """Sentences by the names that they answer; a row is a sentence and its names."""
    return {name: sentence for sentence, *names in rows for name in " ".join(names).split()}


ATTRIBUTES: Mapping[str, Mapping[str, str]] = {
    "Broker": table(
        (_AGAIN, "add_periodic_task cron every periodic_task schedule scheduler"),
        (_TASK, "actor job shared_task"),
        (_HANDLER.replace("@queue", "@broker.queue(name)"), "handler listen subscribe"),
        (_RUN, "start start_worker work worker worker_main"),
        (f"{_QUEUE}; its {_SEND}", "enqueue publish send send_task"),
        (_QUEUE, "Queue create_queue declare_queue get_queue get_queue_by_name"),
    ),
    "Queue": table(
        (
            _SEND,
            "add add_bulk apply_async enqueue enqueue_many publish push put",
            "send_batch send_message send_message_batch send_messages",
        ),
        (_LATER, "delay enqueue_at enqueue_in send_with_options"),
        (_AGAIN, "add_repeatable cron every repeat upsert_job_scheduler"),
        (_CLAIM, "dequeue fetch get poll pop receive receive_message receive_messages reserve"),
        (_HANDLER, "actor job listen on_message process subscribe task worker"),
        (_RUN, "run start work"),
        (
            "purge(all=True) removes all waiting messages; dlq.purge(all=True) the dead letters",
            "clear drain empty flush obliterate",
        ),
        ("peek() reads the next messages, select(…) chooses any messages", "jobs messages"),
        ("stats() counts the messages by state", "count get_job_counts info length qsize size"),
        (
            "its dead letters are in queue.dlq, with groups(), browse(), redrive(…) and purge(…)",
            "dead_letters dead_letter_queue failed failed_job_registry failures get_failed",
        ),
        (
            "queue.dlq.redrive(group=…) moves dead letters back; all of them with all=True",
            "redrive replay requeue retry retry_jobs",
        ),
        (
            "explain(id) says where a message is, select(ids=[id]) has the verbs for it",
            "fetch_job get_job get_message remove",
        ),
    ),
    "Delivery": table(
        ("ack() reports success: it removes the message", "acknowledge complete delete done"),
        (
            "nack(error) redelivers by the policy or after a delay=…, poison(error) makes it a dead letter",
            "abandon dead_letter fail move_to_failed reject requeue retry",
        ),
        ("extend() restarts the lease", "change_visibility extend_lock heartbeat touch"),
        (
            "delivery_count counts the deliveries, charged those that count against max_redeliveries",
            "attempts attempts_made receive_count retries retry_count",
        ),
        ("the content is .body", "args content kwargs message payload value"),
        ("the id is .id", "job_id message_id task_id"),
        ("the queue's name is .queue", "queue_name"),
    ),
    "DeadLetters": table(
        ("browse(…) reads dead letters, groups() counts them by error", "all get list peek"),
        (
            "redrive(…) moves dead letters back to their queue",
            "move_back replay requeue resend retry retry_all",
        ),
        (
            "purge(…) removes dead letters permanently; all of them with all=True",
            "clear delete empty flush remove",
        ),
        ("select(…).count() counts dead letters", "count qsize size"),
    ),
    "Task": table(
        ("send(…) runs it in a worker", "apply enqueue push s signature"),
        ("send(…) runs it in a worker, .options(delay=…).send(…) later", "apply_async delay"),
        ("send_many([(7,), (8,)]) sends many calls", "map send_all send_bulk starmap"),
        ('options(delay="5m").send(…) runs it later', "enqueue_in schedule send_with_options"),
    ),
}

ARGUMENTS: Mapping[str, str] = table(
    (
        "the queue has redelivery=RedeliveryPolicy(max_redeliveries=…, initial_delay=…, multiplier=…)",
        "attempts autoretry_for backoff backoff_limit default_retry_delay max_attempts max_backoff",
        "max_receive_count max_retries max_tries min_backoff retries retry retry_backoff retry_backoff_max",
        "retry_jitter retry_kwargs retry_policy",
    ),
    ('a delay is delay="5m", seconds or a timedelta', "countdown defer_by delay_seconds DelaySeconds"),
    (
        'a delay is delay="5m", a time at=…, a datetime with a time zone',
        "defer_until eta run_after run_at schedule_at scheduled_for",
    ),
    (
        'a task that runs repeatedly has every="1h" or cron="0 7 * * mon-fri": @broker.task(every="1h")',
        "crontab interval periodic repeat run_every schedule",
    ),
    (
        'the time to live is ttl="1h"; for its end expires_at=…, a datetime with a time zone',
        "expire expires expiration expiry max_age message_ttl MessageRetentionPeriod x_message_ttl",
    ),
    (
        'a queue keeps results for results="1h"',
        "ignore_result keep_result removeOnComplete remove_on_complete result_expires result_ttl",
        "store_results",
    ),
    (
        'dead letters stay until they are redriven or purged, or for expiration="30d" of the policy',
        "failure_ttl removeOnFail remove_on_fail",
    ),
    (
        _LEASE,
        "ack_timeout job_timeout lock_duration soft_time_limit time_limit timeout visibility",
        "visibility_timeout VisibilityTimeout",
    ),
    (
        "@queue.handler(concurrency=…) sets how many calls run concurrently in a process",
        "num_workers threads workers",
    ),
    (_URL, "broker broker_url client conn connection host port redis redis_client redis_url"),
    (
        'the id is id="…": a message whose id the queue already has is not sent again',
        "deduplication deduplication_id jobId job_id message_id MessageDeduplicationId msg_id task_id",
        "unique_id",
    ),
    (
        "dead_letter=IndividualDeadLetterStrategy(…) of the queue names it",
        "dead_letter_exchange dead_letter_queue dlq",
    ),
    (
        "claim(count=…) sets how many messages to claim",
        "batch_size max_messages max_number_of_messages MaxNumberOfMessages prefetch prefetch_count",
    ),
    ("broker.queue(name) names the queue", "exchange queue_name queue_url QueueUrl routing_key"),
    (
        'headers={"tenant": "a"} are texts beside the body, which does not change',
        "attributes description MessageAttributes meta metadata properties",
    ),
    (
        'key="customer-7" with per_key=PerKey(order=True) of the queue keeps messages of one key in order',
        "group_id message_group_id MessageGroupId ordering_key partition_key",
    ),
    ("priority=9 is the first, 0 the last", "at_front lifo"),
    (
        "an ack sends what follows: delivery.ack(send=[(queue, body)])",
        "depends_on flow link on_success parent",
    ),
    (
        "broker.observe(observer) is told of failures; dead letters are in queue.dlq",
        "link_error on_failure on_retry_exhausted",
    ),
    ("a parameter annotated with Delivery, with the default None, receives the delivery", "bind"),
)

ARGUMENTS_OF: Mapping[str, Mapping[str, str]] = {
    "RedeliveryPolicy.__init__": table(
        ("initial_delay=… is the first delay, delays=[…] are all of them", "delay"),
        ("collision_avoidance=0.5 spreads the delays by up to a half", "jitter"),
    ),
    "Redeliver.__init__": table(
        (
            'the delay is after="2m", seconds or a timedelta',
            "countdown defer_by defer_until delay delay_seconds eta seconds",
        ),
    ),
    "Queue.send": table(
        ('on_duplicate="raise" makes a known id an error', "if_exists new on_conflict raise_if_exists"),
        ('on_duplicate="replace" gives a waiting message the new body', "overwrite replace replace_existing"),
        (
            "queue.send(…) has on_duplicate; a session, which sends at its commit, drops known ids",
            "max_delay on_duplicate",
        ),
        ("send(body) takes the body by its place", "Body data MessageBody message payload"),
        ("broker.queue(name) names the queue", "queue"),
        ("tasks have arguments: @broker.task makes one", "args kwargs"),
    ),
    "Queue.claim": table(
        (
            'wait="5s" is how long to wait for the first message',
            "block block_ms timeout wait_time wait_time_seconds WaitTimeSeconds",
        ),
        (
            'lease="30s" is how long the messages may be held',
            "invisible_for visibility_timeout VisibilityTimeout",
        ),
    ),
    "Delivery.nack": table(
        (
            "nack(error) redelivers by the policy; poison(error) makes it a dead letter",
            "dead_letter dead_letter_reason multiple requeue",
        ),
        ('a delay is delay="5m", seconds or a timedelta', "timeout visibility_timeout VisibilityTimeout"),
    ),
    "Delivery.extend": table(
        ('extend("1m") restarts the lease', "duration seconds timeout visibility_timeout VisibilityTimeout")
    ),
    "Delivery.ack": table(("each delivery has its own ack; queue.ack(deliveries) acks several", "multiple")),
    "Queue.__init__": table(("broker.queue(name) makes a queue", "connection connect core host redis url")),
    "the policy of a queue": table(
        ('expiry=ExpiryPolicy(expiry_delay="1h") is the time to live of messages sent without ttl=…', "ttl"),
    ),
    "Task.send": table(
        (
            "pass options first, as in .options(delay=…).send(…)",
            (
                "at countdown delay dependency eta expires expires_at headers id job_id key max_delay new "
                "on_duplicate persistent priority result task_id ttl"
            ),
        )
    ),
}
"""Answers for one function only; they take precedence over the others."""
