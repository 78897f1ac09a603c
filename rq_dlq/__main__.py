"""The command `rq-dlq`, also as `python -m rq_dlq`."""

import sys

INTERRUPTED = 130  # what a shell says of a program that Ctrl-C ended


def main() -> None:
    """Run the command line. Ctrl-C ends it without a traceback, also while it is imported."""
    try:
        from rq_dlq.cli import main as run  # noqa: PLC0415 - which takes most of the time

        run(prog_name="rq-dlq")
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
