"""The command `rq-dlq`, also as `python -m rq_dlq`."""

import sys

INTERRUPTED = 130  # the exit status that shells report for a program ended by Ctrl-C


def main() -> None:
    """Run the command line. Ctrl-C ends it without a traceback, even during imports."""
    try:
        from rq_dlq.cli import main as run  # noqa: PLC0415 - which takes most of the time

        run(prog_name="rq-dlq")
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
