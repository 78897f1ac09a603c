"""Commands and options of other queue tools, and our equivalents."""

from __future__ import annotations

from collections.abc import Mapping

from rq_dlq.errors.words import table

COMMANDS: Mapping[str, Mapping[str, str]] = {
    "rq-dlq": table(
        ("rq-dlq send QUEUE", "add enqueue produce publish push put"),
        ("rq-dlq worker MODULE:BROKER", "consume consumer run start work"),
        ("rq-dlq worker ls", "consumers ps workers"),
        ("rq-dlq dlq ls", "dead dead-letters errors failed failures"),
        ("rq-dlq dlq redrive QUEUE", "redrive replay requeue retry"),
        ("rq-dlq queue purge QUEUE --all", "clear empty flush purge"),
        ("rq-dlq queue ls", "info inspect list ls queues stats status"),
        ("rq-dlq queue show QUEUE", "count show"),
        ("rq-dlq top", "dashboard live monitor watch"),
        ("rq-dlq queue pause QUEUE", "pause suspend"),
        ("rq-dlq queue resume QUEUE", "resume"),
        ("rq-dlq msg cancel QUEUE ID", "cancel delete remove revoke rm"),
        ("rq-dlq msg explain QUEUE ID", "explain job jobs message messages where"),
        ("rq-dlq peek QUEUE", "browse claim get receive"),
        ("rq-dlq schedule ls", "beat cron crontab scheduler schedules"),
        ("rq-dlq policy ls", "config policies"),
        ("rq-dlq audit", "history log who"),
        ("rq-dlq doctor", "check health ping"),
        ("rq-dlq --help", "help"),
        ("rq-dlq --version", "version"),
    ),
    "dlq": table(
        ("rq-dlq dlq redrive QUEUE", "replay requeue resend retry"),
        ("rq-dlq dlq ls QUEUE", "browse list peek"),
        ("rq-dlq dlq purge QUEUE", "clear delete empty flush remove rm"),
        ("rq-dlq dlq groups QUEUE", "errors stats"),
        ("rq-dlq dlq show QUEUE ID", "get inspect"),
    ),
    "queue": table(
        ("rq-dlq queue ls", "list"),
        ("rq-dlq queue show QUEUE", "count get info inspect stats status"),
        ("rq-dlq queue purge QUEUE --all", "clear drain empty flush"),
        ("rq-dlq queue rm QUEUE", "delete remove"),
        ("rq-dlq send QUEUE", "add create declare"),
        ("rq-dlq peek QUEUE", "browse peek"),
    ),
    "msg": table(
        ("rq-dlq msg ls QUEUE", "browse list"),
        ("rq-dlq msg show QUEUE ID", "get info inspect"),
        ("rq-dlq msg cancel QUEUE ID", "delete purge remove rm"),
        ("rq-dlq dlq redrive QUEUE --id ID", "redrive requeue retry"),
        ("rq-dlq send QUEUE", "add create send"),
    ),
    "schedule": table(
        ("rq-dlq schedule ls", "list show"),
        ("rq-dlq schedule add QUEUE NAME", "create set update"),
        ("rq-dlq schedule rm QUEUE NAME", "cancel delete remove"),
    ),
    "policy": table(
        ("rq-dlq policy ls", "list"),
        ("rq-dlq policy explain QUEUE", "get show"),
        ("rq-dlq policy set PATTERN", "add create update"),
        ("rq-dlq policy rm PATTERN", "clear delete remove unset"),
    ),
}

BESIDE: Mapping[str, Mapping[str, str]] = {  # only for commands with the option that is the key
    "--listen": table(
        ("the address to listen on is --listen [HOST:]PORT", "--address --bind --host --port -b -p")
    ),
    "--limit": table(("--limit N sets the number", "--count --max --number -n")),
}

OPTIONS: Mapping[str, str] = table(
    (
        "the number of tries is a policy: rq-dlq policy set QUEUE --max-redeliveries N",
        "--attempts --max-attempts --max-retries --max-tries --retries --retry",
    ),
    (
        "`rq-dlq worker MODULE:BROKER -q NAME:N` runs N concurrently, --processes N starts N processes",
        "--concurrency --num-workers --threads --workers -c -p -t -w",
    ),
    ("name queues with -q NAME, once for each", "--queues -Q"),
    ("`rq-dlq worker MODULE:BROKER --watch DIR` restarts after each change", "--autoreload --reload"),
    (
        "name the server with --url or $RQ_DLQ_URL",
        "--broker --connection --host --port --redis --redis-url --server -b -h -u",
    ),
    ("name the app first: rq-dlq worker MODULE:BROKER", "--app -A"),
    ("`rq-dlq send QUEUE --delay 5m` sends for later", "--countdown --defer --eta --in"),
    ("`rq-dlq send QUEUE --ttl 1h` sends messages that expire", "--expires --expiration"),
    ("the format of data is -o json", "--format --json"),
    ("--yes skips the confirmation", "--force --no-input --no-prompt -f -y"),
    ("-v prints more", "--debug --log-level --loglevel --verbosity -l"),
    ("--all chooses all, --where those that meet a condition", "--everything --filter -a"),
    ("--where \"reason = 'poison'\" chooses by the reason", "--reason"),
    ("--where \"fingerprint = 'GROUP'\" chooses a group", "--group"),
    ("leave it out, since without --where this chooses all", "--all"),
)
