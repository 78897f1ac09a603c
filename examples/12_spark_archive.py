"""Archives the outcomes of messages, shows the causes of death, and redrives by rules.

It works on a queue of its own, and needs Java, pyspark and the extra "spark". For your queues:

    12_spark_archive.py --queue 'orders*' --out s3a://bucket/archive --rules rules.toml --apply --trim
"""

import argparse
import json
import os
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from datetime import datetime
from fnmatch import filter as matching
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.console import Console
from rich.table import Table
from rich.text import Text
from what_if import what_if

from rq_dlq import Broker, RedeliveryPolicy
from rq_dlq.spark import Archive, collision_report, poison_report, queue_report, register

Rows = list[dict[str, Any]]
POLICIES = {f"{n} redeliveries": RedeliveryPolicy(max_redeliveries=n) for n in (0, 2, 5, 12)}
SHOWN = {  # of each table, which has more
    "poison": "new queue fingerprint reason error_class error_message count share dead_now last_seen",
    "queues": "queue succeeded redelivered died expired redelivery_ratio success_ms_p99 waiting dead",
    "collisions": "queue redeliveries colliding score largest largest_at",  # in the same 100 ms
    "what_if": "queue policy messages lost undecided attempts_spared wait_seconds policy_wait_seconds",
}


def play(broker: Broker) -> str:
    """Forty orders: some have no items, some fail until the gateway is back, and some for too long."""
    policy = RedeliveryPolicy(initial_delay=0, max_redeliveries=3)
    queue = broker.queue("example-archive", outcomes=10_000, redelivery=policy)
    queue.purge(all=True)
    queue.dlq.purge(all=True)
    queue.send_many(range(40))
    while deliveries := queue.claim(count=40):
        for delivery in deliveries:
            if delivery.body % 10 == 7:
                delivery.poison(ValueError(f"order {delivery.body} has no items"))
            elif delivery.delivery_count <= delivery.body % 5:
                delivery.nack(TimeoutError("the gateway took 30 s"))
            else:
                delivery.ack()
    return queue.name


def kinds(letters: DataFrame) -> dict[tuple[str, ...], int]:
    """How many dead letters there are of each kind."""
    found = letters.groupBy("queue", "fingerprint", "reason").agg(F.count("*").alias("letters"))
    return {tuple(row)[:3]: row.letters for row in found.collect()}


def report(archive: Archive, queues: Sequence[str], since: datetime | None) -> dict[str, Rows]:
    """Write the tables as Parquet, in place of the last run's, and return their rows."""

    def wanted(rows: DataFrame, at: str) -> DataFrame:
        rows = rows.where(F.col("queue").isin(*queues))
        return rows.where(F.col(at) >= F.lit(since.isoformat()).cast("timestamp")) if since else rows

    spark = archive.spark
    history = wanted(archive.history, "at")
    now = spark.read.format("rq_dlq").options(view="metrics", queue=json.dumps(queues)).load()
    tables = {
        "poison": poison_report(wanted(archive.dead_letters, "dead_at")),
        "queues": queue_report(history, now),
        "collisions": collision_report(history),
        "what_if": what_if(history, POLICIES),
    }
    for name, table in tables.items():
        table.coalesce(1).write.mode("overwrite").parquet(f"{archive.folder}/tables/{name}")
    written = {name: spark.read.parquet(f"{archive.folder}/tables/{name}").collect() for name in tables}
    return {name: [row.asDict() for row in rows] for name, rows in written.items()}


def show(console: Console, name: str, rows: Rows) -> None:
    columns = SHOWN[name].split()
    table = Table(*(column.replace("_", " ") for column in columns), title=name, box=None)
    for row in rows[:20]:
        table.add_row(*(cell(row[column]) for column in columns))
    console.print(table)


def cell(value: object) -> Text:
    match value:
        case None:
            return Text("-")
        case float():
            return Text(f"{value:,g}")
        case int():
            return Text(f"{value:,}")
        case datetime():
            return Text(f"{value:%m-%d %H:%M:%S}")
    return Text("".join(c if c.isprintable() else "?" for c in str(value)))  # an error may say anything


def redrive(broker: Broker, rules: dict[str, dict[str, Any]], queues: Sequence[str], *, apply: bool) -> None:
    """Say how many messages the rules would bring back. Then do it: by now a mistake in a rule was found."""
    asked = []
    for title, rule in rules.items():
        if "where" not in rule:
            sys.exit(f"{title}: say which dead letters, as in where = \"reason = 'exhausted'\"")
        pattern, where, most = rule.pop("queue", "*"), f"({rule.pop('where')})", rule.pop("max_redriven", 3)
        for queue in matching(queues, pattern):
            dlq, terms = broker.queue(queue).dlq, rule | {"where": f"{where} AND redriven < {most:d}"}
            back = dlq.redrive(**terms, dry_run=True).eligible
            stay = dlq.redrive(**terms | {"where": where}, dry_run=True).eligible - back
            print(f"{title}: {back:,} of {queue} would come back, {stay:,} did so {most} times and stay dead")
            asked.append((dlq, terms))
    if apply:
        print(f"redriven: {sum(dlq.redrive(**terms).wait().counts.moved for dlq, terms in asked):,}")
    elif asked:
        print("nothing was redriven: add --apply to do it")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--queue", help="names or patterns with *, comma-separated; default: an example")
    parser.add_argument("--out", help="a directory, or its URL; default: a temporary directory")
    parser.add_argument("--format", choices=("parquet", "delta"), default="parquet", help="of the archive")
    parser.add_argument("--since", type=datetime.fromisoformat, help="report only events since then")
    parser.add_argument("--trim", action="store_true", help="drop archived events from Redis")
    parser.add_argument("--rules", type=Path, help="a file such as rules.toml: which dead letters come back")
    parser.add_argument("--apply", action="store_true", help="redrive them")
    options = parser.parse_args()
    if not options.queue:
        options.rules, options.apply = Path(__file__).with_name("rules.toml"), True
    if options.apply and not options.rules:
        parser.error("--apply needs --rules")
    return options


def main() -> None:
    options = arguments()
    rules = tomllib.loads(options.rules.read_text(encoding="utf-8")) if options.rules else {}
    broker = Broker()
    queue = options.queue or play(broker)

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    quiet = SparkSession.builder.config("spark.ui.showConsoleProgress", value=False)
    spark = quiet.config("spark.log.level", "ERROR").getOrCreate()
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    register(spark)

    archive = Archive(spark, options.out or tempfile.mkdtemp(), format=options.format)
    known = kinds(archive.dead_letters)
    added = archive.add(queue, trim=options.trim)
    print(f"archived in {archive.folder}: {added.events:,} events, {added.dead_letters:,} dead letters")
    if options.trim:
        print(f"trimmed: {added.trimmed:,} events")

    tables = report(archive, added.queues, options.since)
    dead = kinds(spark.read.format("rq_dlq").options(view="dlq", queue=json.dumps(added.queues)).load())
    for row in tables["poison"]:
        kind = (row["queue"], row["fingerprint"], row["reason"])
        row["new"] = "new" if known and kind not in known else ""
        row["share"] = f"{'█' * round(20 * row['share'])} {row['share']:.0%}"
        row["dead_now"] = dead.get(kind, 0)
    for name, rows in tables.items():
        show(Console(width=150), name, rows)
    redrive(broker, rules, added.queues, apply=options.apply)


if __name__ == "__main__":
    main()
