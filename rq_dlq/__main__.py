"""`python -m rq_dlq` is `rq-dlq`."""

from rq_dlq.cli import main

if __name__ == "__main__":
    main(prog_name="rq-dlq")
