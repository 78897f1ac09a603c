"""Commands and options of other queues are answered with ours."""

from __future__ import annotations

import click
from click.testing import CliRunner

from rq_dlq.cli import main
from rq_dlq.cli._guesses import COMMANDS, OPTIONS
from tests.tables import each_row

GUESSES = [
    ("enqueue orders", "No such command 'enqueue': it is `rq-dlq send QUEUE`."),
    ("work app:broker", "it is `rq-dlq worker MODULE:BROKER`."),
    ("retry orders", "it is `rq-dlq dlq redrive QUEUE`."),
    ("dead", "it is `rq-dlq dlq ls`."),
    ("failed", "it is `rq-dlq dlq ls`."),
    ("purge orders", "it is `rq-dlq queue purge QUEUE --all`."),
    ("stats", "it is `rq-dlq queue ls`."),
    ("dlq retry orders", "it is `rq-dlq dlq redrive QUEUE`."),
    ("dlq list", "it is `rq-dlq dlq ls QUEUE`."),
    ("queue delete orders", "it is `rq-dlq queue rm QUEUE`."),
    ("queue create orders", "it is `rq-dlq send QUEUE`."),
    ("msg delete orders 1", "it is `rq-dlq msg cancel QUEUE ID`."),
    ("policy show orders", "it is `rq-dlq policy explain QUEUE`."),
    ("wroker app:broker", "No such command 'wroker': it is `rq-dlq worker`."),
    ("dlq redirve orders", "it is `rq-dlq dlq redrive`."),
    ("xyzzy", "No such command 'xyzzy'"),
    (
        "worker app:broker --max-retries 3",
        "the number of tries is a policy: rq-dlq",
    ),
    ("policy set orders --max-retries 3", "policy set QUEUE --max-redeliveries N."),
    ("worker app:broker --concurrency 3", "-q NAME:N` runs N concurrently"),
    ("worker app:broker -c 3", "-q NAME:N` runs N concurrently"),
    ("worker -A app", "name the app first: rq-dlq worker MODULE:BROKER."),
    ("worker app:broker --reload", "--watch DIR` restarts after each change"),
    ("send orders --countdown 5", "--delay 5m` sends for later"),
    ("send orders --expires 5", "--ttl 1h` sends messages that expire"),
    ("queue purge orders --force", "--yes skips the confirmation"),
    ("--redis-url redis://here queue ls", "name the server with --url or $RQ_DLQ_URL"),
    ("queue ls --redis-url redis://here", "name the server with --url or $RQ_DLQ_URL"),
    ("queue ls --json", "the format of data is -o json"),
    ("worker app:broker --procesess 3", "--processes"),
    ("web --port 9000", "the address to listen on is --listen [HOST:]PORT."),
    ("metrics --host x", "the address to listen on is --listen [HOST:]PORT."),
    ("queue ls --host x", "name the server with --url or $RQ_DLQ_URL"),
    ("peek orders -n 3", "--limit N sets the number."),
    ("dlq redrive orders --reason poison", "--where \"reason = 'poison'\" chooses by the reason."),
    ("dlq purge orders --group 6bed99", "--where \"fingerprint = 'GROUP'\" chooses a group."),
    ("help", "it is `rq-dlq --help`."),
    ("version", "it is `rq-dlq --version`."),
    (
        "dlq export orders --all",
        "No such option '--all': leave it out, since without --where this chooses all.",
    ),
]


@each_row(("words", "said"), GUESSES)
def test_a_guess_is_answered(words: str, said: str) -> None:
    result = CliRunner().invoke(main, words.split(), prog_name="rq-dlq")
    assert result.exit_code == 2
    assert said in " ".join(result.stderr.split())
    assert result.stdout == ""


def found(words: list[str]) -> click.Command:
    """The command that these words name."""
    command: click.Command = main
    context = click.Context(main)
    while words and isinstance(command, click.Group) and (inner := command.get_command(context, words[0])):
        command, words = inner, words[1:]
    return command


@each_row("group", COMMANDS)
def test_each_answer_is_a_command_and_no_guess_is(group: str) -> None:
    noun = main if group == "rq-dlq" else found([group])
    assert isinstance(noun, click.Group)
    for name, ours in COMMANDS[group].items():
        assert noun.get_command(click.Context(noun), name) is None, name
        command = found(ours.split()[1:])
        assert not isinstance(command, click.Group) or ours in {"rq-dlq --help", "rq-dlq --version"}
        parameters = command.get_params(click.Context(command))
        options = {option for parameter in parameters for option in parameter.opts}
        assert {word for word in ours.split() if word.startswith("-")} <= options, ours


def test_each_option_of_an_answer_is_one() -> None:
    def options(command: click.Command) -> set[str]:
        own = {option for parameter in command.params for option in parameter.opts}
        if not isinstance(command, click.Group):
            return own
        context = click.Context(command)
        inner = [command.get_command(context, name) for name in command.list_commands(context)]
        return own.union(*(options(one) for one in inner if one))

    known = options(main)
    for sentence in OPTIONS.values():
        assert {word.strip("`") for word in sentence.split() if word.startswith("-")} <= known, sentence
