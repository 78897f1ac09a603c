"""T5 finds the faults that are planted for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.proofs.reliability.rows.kills import try_out
from tests.proofs.reliability.trial import Plan

LUA = Path(__file__).parents[3] / "lua" / "lib"
PLAN = Plan(4_000, kills=5, zombies=2, senders_killed=0, lease=300, patience=3.0)


REFUSAL = "local function refusal(id, token, text)"
FORGET = "redis.call('HDEL', history, unpack(ids))"
ANOTHER = "redis.call('HDEL', messages, redis.call('HKEYS', messages)[1] or '')"
COUNT = "redis.call('HINCRBY', counters, 'acked', acked)"


@pytest.mark.parametrize(
    ("fragment", "text", "planted", "finding"),
    [
        ("holds", "text:find(needle, 1, true) ~= nil", "true", "late acks accepted"),
        ("refusal", REFUSAL, f"{REFUSAL} do return SETTLED end", "settled twice"),
        ("acked", FORGET, f"{FORGET} {ANOTHER}", "lost"),
        ("acked", COUNT, "", "acked that they do not explain"),
    ],
    ids=["no fence", "every ack is accepted", "an ack drops one more", "acks are not counted"],
)
def test_a_planted_fault_is_found(
    fragment: str, text: str, planted: str, finding: str, tmp_path: Path
) -> None:
    whole = (LUA / f"{fragment}.lua").read_text()
    assert text in whole
    fragments = {f"lib/{fragment}": whole.replace(text, planted)}
    for seed in range(1, 6):  # on a busy machine a zombie may wake up when nobody else has its messages
        figures = try_out(PLAN, tmp_path / str(seed), seed, lambda *_: None, fragments)
        if not figures.met:
            break
    assert not figures.met
    assert finding in figures.note
