"""`python -m tests.proofs.two_forms [--form text] [--only NAME] [--first 1] [--draws 2] [--steps 60]`."""

from __future__ import annotations

import argparse
import sys
import time

from tests.proofs.two_forms.walk import failures

parser = argparse.ArgumentParser(prog="python -m tests.proofs.two_forms")
parser.add_argument("--form", choices=["functions", "text"], default="functions")
parser.add_argument("--only", default="", help="only walks whose name has this text")
parser.add_argument("--first", type=int, default=1)
parser.add_argument("--draws", type=int, default=2)
parser.add_argument("--steps", type=int, default=60)
parser.add_argument("--most", type=int, default=8, help="stop after so many failures")
asked = parser.parse_args()
walked, failed, began = 0, list[str](), time.monotonic()
for name, error in failures(asked.form, asked.only, asked.first, asked.draws, asked.steps):
    walked += 1
    if error:
        failed.append(name)
        sys.stdout.write(f"== {name}\n{error}\n")
        sys.stdout.flush()
    if len(failed) >= asked.most:
        break
sys.stdout.write(f"{walked} walks, {len(failed)} failed, in {time.monotonic() - began:.0f} s: {failed}\n")
sys.exit(bool(failed))
