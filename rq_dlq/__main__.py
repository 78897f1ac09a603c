"""The command `rq-dlq`, also as `python -m rq_dlq`."""

import io
import os
import sys

FAILED = 1
INTERRUPTED = 130  # what a shell says of a program that Ctrl-C ended


def main() -> None:
    """Run the command line.

    Ctrl-C ends it without a traceback, also while it is imported. A full disk under stdout is an error like
    others. What the encoding of stdout lacks is printed as an escape.
    """
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        from rq_dlq.cli import main as run  # noqa: PLC0415 - which takes most of the time

        run(prog_name="rq-dlq")
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except OSError as error:
        if not _cannot_be_written(error):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else Python tries again at its end
        sys.stderr.write(f"Error: cannot write the output: {error.strerror}\n")
        sys.exit(FAILED)


def _cannot_be_written(error: OSError) -> bool:
    from errno import EDQUOT, EFBIG, EIO, ENOSPC  # noqa: PLC0415 - Ctrl-C may come before all imports

    return error.errno in {EDQUOT, EFBIG, EIO, ENOSPC}


if __name__ == "__main__":
    main()
