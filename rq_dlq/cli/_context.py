"""The common code of the commands: global options, the broker, errors as sentences."""

from __future__ import annotations

import errno
import io
import os
import sys
import traceback
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from rq_dlq.cli._arguments import with_options
from rq_dlq.cli._examples import EXAMPLES
from rq_dlq.cli._guesses import BESIDE, COMMANDS, OPTIONS
from rq_dlq.cli._logs import show_log
from rq_dlq.errors import BrokerRefused, BrokerUnavailable, ConfigurationError, InvalidInput, RqDlqError
from rq_dlq.values.cached import cached_property
from rq_dlq.values.visible import visible

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from rq_dlq.cli._show import Output
    from rq_dlq.client.broker import Broker
    from rq_dlq.client.settings import BrokerSettings

FAILED, USAGE, UNREACHABLE, PART_WAY, INTERRUPTED = 1, 2, 3, 4, 130
CANNOT_WRITE = {errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENOSPC}
FORMATS = ("table", "json", "jsonl")


@dataclass
class Context:
    """The global options of the running command. The broker reads the environment variables.

    Modules that `--help` does not need are imported when they are used.

    Attributes:
        settings: those of a host program, such as a Django project; None: there is none.
        opened: the resources to close when the command ends.
    """

    url: str | None = None
    namespace: str | None = None
    verbose: int = 0
    log_format: str = "text"
    settings: BrokerSettings | None = None
    opened: ExitStack = field(default_factory=ExitStack)

    def __post_init__(self) -> None:
        if self.settings is not None:
            self.url, self.namespace = self.settings.url, self.settings.namespace

    @cached_property
    def output(self) -> Output:
        """The output for data and for messages to the user."""
        from rq_dlq.cli._show import Output  # noqa: PLC0415

        return Output()

    @cached_property
    def broker(self) -> Broker:
        """The broker that the options describe."""
        from rq_dlq.client.broker import Broker  # noqa: PLC0415

        return self.opened.enter_context(Broker(settings=self.broker_settings))

    @property
    def broker_settings(self) -> BrokerSettings:
        """The settings of that broker."""
        from rq_dlq.client.settings import BrokerSettings  # noqa: PLC0415

        options: dict[str, Any] = {} if self.namespace is None else {"namespace": self.namespace}
        return replace(self.settings or BrokerSettings(), url=self.url, **options)


pass_context = click.make_pass_decorator(Context)


class CommandFailed(click.ClickException):
    """One sentence for the user, and an exit code.

    Args:
        error: the cause; a second line names the page of this error.
    """

    def __init__(self, message: str, exit_code: int = FAILED, error: BaseException | None = None) -> None:
        super().__init__(message)
        self.exit_code = exit_code  # type: ignore[misc]  # click reads it from here
        self.page = error.page if isinstance(error, RqDlqError) else ""

    def show(self, file: Any = None) -> None:
        """Print it on stderr."""
        error = click.style("Error:", fg="red", bold=True)
        more = click.style(f"\nmore: {self.page}", dim=True) if self.page else ""
        click.echo(f"{error} {visible(self.message)}{more}", file=file, err=True, color=self.show_color)


def typed(ctx: click.Context, line: str) -> str:
    """A command as the user of this program types it: `manage.py rq_dlq` needs no MODULE:BROKER."""
    root = ctx.find_root()
    if "worker" not in (root.default_map or {}):
        return line
    for app in (" MODULE:BROKER", " shop:broker"):
        line = line.replace(app, "")
    return line.replace("rq-dlq", root.info_name or "")


class SuggestingCommand(click.Command):
    """A command that suggests its option for one of another tool. Its help ends with an example."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the example."""
        words = ctx.command_path.removeprefix(ctx.find_root().info_name or "").strip()
        line = " ".join(filter(None, ("rq-dlq", words, EXAMPLES.get(words))))
        with formatter.section("Example"):
            formatter.write(f"{' ' * formatter.current_indent}{typed(ctx, line)}\n")  # unwrapped, for copying

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the options."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            answers = dict(OPTIONS)
            for name in {name for param in self.params for name in param.opts} & BESIDE.keys():
                answers.update(BESIDE[name])
            if not (sentence := answers.get(error.option_name)):
                raise
            ctx.fail(f"No such option {error.option_name!r}: {sentence}.")


class CliCommand(SuggestingCommand):
    """A command that also takes the global options, at any position."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.params += _global_options(hidden=True)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; errors name its options, not Python arguments."""
        try:
            return super().invoke(ctx)
        except InvalidInput as error:
            error.args = (with_options(str(error), ctx), *error.args[1:])
            raise


class CliGroup(SuggestingCommand, click.Group):
    """A command with subcommands, such as `queue`."""

    command_class = CliCommand

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the subcommand, or suggest one for a typo or a name from another tool."""
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            closest = get_close_matches(name, self.list_commands(ctx), n=1)
            usual = COMMANDS.get(self.name if ctx.parent and self.name else "rq-dlq", {}).get(name)
            ours = usual or next((f"{ctx.command_path} {command}" for command in closest), None)
            if ours is not None:
                ctx.fail(f"No such command {name!r}: it is `{typed(ctx, ours)}`.")
        return super().resolve_command(ctx, args)


class Commands(CliGroup):
    """The root command: has the global options, and turns errors into sentences and exit codes.

    Args:
        rooms: the module of each command whose module has another name. A module is imported when its
            command is used.
        sentences: a description of each command, for `--help`.
    """

    group_class = CliGroup

    def __init__(
        self, *args: Any, rooms: Mapping[str, str], sentences: Mapping[str, str], **settings: Any
    ) -> None:
        super().__init__(*args, **settings)
        self.params += _global_options(hidden=False)
        self._rooms, self._sentences = rooms, sentences

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of the commands."""
        del ctx
        return sorted(self._sentences)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command with this name."""
        del ctx
        if cmd_name not in self._sentences:
            return None
        try:
            module = import_module(f"rq_dlq.cli.{self._rooms.get(cmd_name, cmd_name)}")
        except KeyboardInterrupt:
            sys.exit(INTERRUPTED)  # silently, like `__main__`: no work has begun
        command: click.Command = getattr(module, cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the descriptions of the commands."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, self._sentences[name]) for name in self.list_commands(ctx)])

    def main(self, *args: Any, **settings: Any) -> Any:
        """Run the command line; characters that stdout cannot encode are escaped."""
        if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
            settings["color"] = False
        if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
            sys.stdout.reconfigure(errors="backslashreplace")
        try:
            return super().main(*args, **settings)
        except OSError as error:
            if error.errno not in CANNOT_WRITE or error.filename is not None:  # not about stdout
                raise
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, sys.stdout.fileno())  # otherwise Python writes to it again at exit
            CommandFailed(f"cannot write the output: {error.strerror}").show()
            sys.exit(FAILED)

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        """Parse the command line; errors quote it safely."""
        with errors_visible():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        context = ctx.ensure_object(Context)
        show_log(context.verbose)
        try:
            with context.opened, errors_visible():
                return super().invoke(ctx)
        except KeyboardInterrupt as error:
            raise CommandFailed("; ".join(filter(None, ("stopped", sentence(error)))), PART_WAY) from None
        except RqDlqError as error:
            traced = context.verbose > 1
            if traced:
                traceback.print_exception(error)  # this also names the page
            raise CommandFailed(sentence(error), exit_code(error), None if traced else error) from None


@contextmanager
def errors_visible() -> Generator[None]:
    """Escape terminal control characters that a usage error quotes from the command line."""
    try:
        yield
    except click.ClickException as error:
        vars(error)["message"] = visible(error.message)
        raise


def sentence(error: BaseException) -> str:
    """The error's text and its notes, in one line."""
    return "; ".join(filter(None, [str(error), *notes(error)]))


def notes(error: BaseException) -> list[str]:
    """The error's notes, without the last, which names its page: the page is printed on a separate line."""
    found: list[str] = getattr(error, "__notes__", [])
    return found[:-1] if isinstance(error, RqDlqError) else found


def exit_code(error: RqDlqError) -> int:
    """The exit code for an error."""
    if isinstance(error, BrokerUnavailable | BrokerRefused):
        return UNREACHABLE
    return USAGE if isinstance(error, InvalidInput | ConfigurationError) else FAILED


def _global_options(*, hidden: bool) -> list[click.Parameter]:
    """The options of every command."""

    def option(*names: str, **settings: Any) -> click.Option:
        return click.Option(names, expose_value=False, callback=_keep, hidden=hidden, **settings)

    return [
        option("--url",
               help=(
                   "redis://…, rediss://…, unix://… or redis+sentinel://…; default $RQ_DLQ_URL, or embedded."
               )),
        option("--namespace", help='The prefix of all keys; default $RQ_DLQ_NAMESPACE, or "rq".'),
        option("-o", "--output", type=click.Choice(FORMATS), help="The format of data; a table by default."),
        option("-v", "--verbose", count=True, help="Print more; twice: also the tracebacks of errors."),
        option("--no-color", is_flag=True, help="Print no colours; so does $NO_COLOR."),
    ]  # fmt: skip


def _keep(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    """Keep a global option that was passed."""
    context = ctx.ensure_object(Context)
    if value in {None, False}:  # an empty text, as from an unset variable, is kept: the broker refuses it
        return
    match param.name:
        case "url":
            context.url = value
        case "namespace":
            context.namespace = value
        case "output":
            context.output.format = value
        case "verbose":
            context.verbose += value
            show_log(context.verbose)
        case _:  # --no-color
            context.output.plain()
            ctx.color = ctx.find_root().color = False
