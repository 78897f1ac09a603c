"""To which node of a cluster commands go; the nodes are made up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import pytest
from redis import exceptions

from rq_dlq._redis.cluster import SLOTS, Cluster, Node, read_slots, route, slot_of
from rq_dlq.errors import BrokerRefused
from tests.tables import each_row

SEED, LEFT, RIGHT = Node("seed", 1), Node("left", 2), Node("right", 3)
HALF = SLOTS // 2
MAP = [[0, HALF - 1, [b"left", 2, b"id"]], [HALF, SLOTS - 1, [b"right", 3, b"id"], [b"replica", 4, b"id"]]]
# of queues in the left and the right half, and of the namespace
A, B, C, D = "rq:{b}:ready", "rq:{a}:ready", "rq:{c}:ready", "rq:{d}:ready"
NAMES, POLICIES = "rq:queues", "rq:policies"


def test_the_keys_are_where_these_tests_think() -> None:
    assert all(slot_of(key) < HALF for key in (A, C))
    assert all(slot_of(key) >= HALF for key in (B, D, NAMES, POLICIES))


Answer: TypeAlias = Callable[[Node, tuple[Any, ...]], Any]


class Nodes:
    """Nodes that answer as they are told, and note what was said to whom."""

    def __init__(self, answer: Answer = lambda *_: b"OK", where: Any = MAP) -> None:
        self.cluster = Cluster(SEED)
        self.said: list[tuple[Node, list[tuple[Any, ...]]]] = []
        self.answer = answer
        self._where = where

    def run(self, *commands: tuple[Any, ...]) -> list[Any]:
        """Route these."""
        self.said.clear()
        talk = route(self.cluster, list(commands))
        try:
            node, part = next(talk)
            while True:
                self.said.append((node, part))
                try:
                    replies = [self._reply(node, command) for command in part]
                except exceptions.ConnectionError as error:
                    node, part = talk.throw(error)
                else:
                    node, part = talk.send(replies)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]

    def _reply(self, node: Node, command: tuple[Any, ...]) -> Any:
        reply = self.answer(node, command)
        if isinstance(reply, exceptions.ConnectionError):
            raise reply
        return self._where if command[0] == b"CLUSTER" else reply


def get(key: str) -> tuple[Any, ...]:
    return (b"GET", key)


def run_script(key: str) -> tuple[Any, ...]:
    return (b"EVALSHA", "sha", 2, key, "argument")


ASK_MAP = (SEED, [(b"CLUSTER", b"SLOTS")])


def test_each_command_goes_to_the_node_of_its_key() -> None:
    nodes = Nodes(lambda node, command: (node.host, command[-2:]))
    assert nodes.run(run_script(A), get(B), run_script(C))[1] == ("right", (b"GET", B))
    assert nodes.said == [ASK_MAP, (LEFT, [run_script(A), run_script(C)]), (RIGHT, [get(B)])]


def test_the_map_is_asked_for_once() -> None:
    nodes = Nodes()
    nodes.run(get(A))
    nodes.run(get(A))
    assert nodes.said == [(LEFT, [get(A)])]


def test_replies_are_in_order() -> None:
    nodes = Nodes(lambda _, command: command[1] if command[0] == b"GET" else b"OK")
    keys = [A, B, C, NAMES, D, A, POLICIES, B]
    assert nodes.run(*map(get, keys)) == keys


TIME, LOAD, WAIT = (b"TIME",), (b"SCRIPT", b"LOAD", b"source"), (b"WAIT", 1, 100)


@each_row(
    ("commands", "said"),
    [
        ([TIME, get(A), TIME, get(B)], [(LEFT, [TIME, get(A)]), (RIGHT, [TIME, get(B)])]),
        (
            [LOAD, run_script(A), LOAD, run_script(B)],
            [(LEFT, [LOAD, run_script(A)]), (RIGHT, [LOAD, run_script(B)])],
        ),
        ([get(A), WAIT, get(B), WAIT], [(LEFT, [get(A), WAIT]), (RIGHT, [get(B), WAIT])]),
        ([get(A), TIME], [(LEFT, [get(A), TIME])]),
        ([TIME, WAIT], [(LEFT, [TIME, WAIT])]),
    ],
)
def test_what_has_no_key_goes_along(commands: list[Any], said: list[Any]) -> None:
    nodes = Nodes()
    nodes.run(*commands)
    assert nodes.said == [ASK_MAP, *said]


def test_what_concerns_all_queues_keeps_its_place() -> None:
    """Names are noted before a queue is written to, and the map is looked at after it."""
    nodes = Nodes()
    nodes.run(get(NAMES), get(A), get(B), get(NAMES), get(POLICIES), get(A))
    assert nodes.said[1:] == [
        (RIGHT, [get(NAMES)]), (LEFT, [get(A)]), (RIGHT, [get(B)]),
        (RIGHT, [get(NAMES)]), (RIGHT, [get(POLICIES)]), (LEFT, [get(A)]),
    ]  # fmt: skip


def test_a_slot_that_has_moved() -> None:
    """The map is corrected, and only the commands that were refused are repeated, with what goes along."""
    moved = exceptions.MovedError(f"{slot_of(A)} right:3")
    nodes = Nodes(
        lambda node, command: moved if (node, command[1:2]) == (LEFT, (A,)) else (node.host, command[0])
    )
    assert nodes.run(get(C), get(A), WAIT) == [("left", b"GET"), ("right", b"GET"), ("right", b"WAIT")]
    assert nodes.said[1:] == [(LEFT, [get(C), get(A), WAIT]), (RIGHT, [get(A), WAIT])]
    nodes.run(get(A), get(C))
    assert nodes.said == [(RIGHT, [get(A)]), (LEFT, [get(C)])]


def test_a_slot_that_is_on_its_way() -> None:
    """Once, and with ASKING right before it; the map stays as it is."""
    ask = exceptions.AskError(f"{slot_of(A)} right:3")
    nodes = Nodes(
        lambda node, command: ask if (node, command[0]) == (LEFT, b"EVALSHA") else (node.host, command[0])
    )
    assert nodes.run(LOAD, run_script(A), WAIT) == [
        ("right", b"SCRIPT"),
        ("right", b"EVALSHA"),
        ("right", b"WAIT"),
    ]
    assert nodes.said[2:] == [(RIGHT, [LOAD, (b"ASKING",), run_script(A), WAIT])]
    nodes.run(get(A))
    assert nodes.said == [(LEFT, [get(A)])]


@each_row("host", ["", "left"])
def test_a_node_without_an_address_is_the_one_that_was_asked(host: str) -> None:
    moved = exceptions.MovedError(f"{slot_of(A)} {host}:7")
    nodes = Nodes(lambda node, command: moved if (node, command[0]) == (LEFT, b"GET") else b"OK")
    nodes.run(get(A))
    assert nodes.said[-1] == (Node("left", 7), [get(A)])


@each_row("host", [b"", None, b"?", ""])
def test_the_map_of_nodes_without_addresses(host: Any) -> None:
    owners = read_slots([[0, 1, [host, 6379, b"id"]], [3, 3, [host, 0, b"id"]]], LEFT)
    assert owners[:4] == (Node("left", 6379), Node("left", 6379), None, LEFT)


def test_who_came_by_a_socket_stays_there() -> None:
    assert read_slots([[0, 0, [b"", 6379, b"id"]]], Node("", 0))[0] == Node("", 0)


def test_nodes_that_send_each_other_on_without_end() -> None:
    """After a while it is left to the caller to wait."""
    moved = {
        LEFT: exceptions.MovedError(f"{slot_of(A)} right:3"),
        RIGHT: exceptions.MovedError(f"{slot_of(A)} left:2"),
    }
    nodes = Nodes(lambda node, command: moved[node] if command[0] == b"GET" else b"OK")
    (reply,) = nodes.run(get(A))
    assert isinstance(reply, exceptions.MovedError)
    assert len(nodes.said) < 10


@each_row("refusal", [exceptions.TryAgainError("not yet"), exceptions.ResponseError("no")])
def test_other_errors_are_replies(refusal: Exception) -> None:
    nodes = Nodes(lambda _, command: refusal if command[0] == b"GET" else b"OK")
    assert nodes.run(get(A), TIME) == [refusal, b"OK"]
    assert nodes.run(get(A)) == [refusal]
    assert nodes.said == [(LEFT, [get(A)])]


def lost(gone: Node, command: bytes = b"") -> Callable[[Node, tuple[Any, ...]], Any]:
    """A node that does not answer."""
    error = exceptions.ConnectionError("gone")
    return lambda node, said: error if node == gone and said[0].startswith(command) else b"OK"


def test_a_node_that_is_gone() -> None:
    """The caller is told, since it may have done it; another node is asked for the map then."""
    nodes = Nodes(lost(LEFT))
    with pytest.raises(exceptions.ConnectionError):
        nodes.run(get(A), get(B))
    assert nodes.said[1:] == [(LEFT, [get(A)])], "nothing more is begun"
    with pytest.raises(exceptions.ConnectionError):
        nodes.run(get(A))
    assert nodes.said[0][0] in {SEED, RIGHT}
    assert nodes.said[1:] == [(LEFT, [get(A)])]


def test_a_cluster_that_is_down() -> None:
    """A node that says so may be the one that is cut off: another is asked for the map."""
    down = exceptions.ClusterDownError("The cluster is down")
    nodes = Nodes(lambda _, command: down if command[0] == b"GET" else b"OK")
    assert nodes.run(get(A)) == [down]
    nodes.run(get(A))
    assert [part[0][0] for _, part in nodes.said] == [b"CLUSTER", b"GET"]
    assert nodes.said[0][0] != LEFT


def test_the_seed_may_be_gone_later() -> None:
    nodes = Nodes()
    nodes.run(get(A))
    nodes.answer = lost(SEED)
    nodes.cluster.suspect = SEED
    assert nodes.run(get(A)) == [b"OK"]
    assert nodes.said[0][0] in {LEFT, RIGHT}


def test_what_has_no_key_avoids_nodes_that_failed() -> None:
    """A fresh map still has them. Where all failed, the one that failed first is asked again."""
    nodes = Nodes(lost(LEFT))
    with pytest.raises(exceptions.ConnectionError):
        nodes.run(TIME)
    assert nodes.said[-1][0] == LEFT
    for _ in range(2):
        assert nodes.run(TIME) == [b"OK"]
        assert nodes.said[-1][0] == RIGHT
    nodes.answer = lost(RIGHT)
    with pytest.raises(exceptions.ConnectionError):
        nodes.run(TIME)
    assert nodes.run(TIME) == [b"OK"]
    assert nodes.said[-1][0] == LEFT


def test_a_node_that_answers_again_is_like_any_other() -> None:
    nodes = Nodes(lost(LEFT))
    with pytest.raises(exceptions.ConnectionError):
        nodes.run(TIME)
    nodes.answer = lost(SEED)
    assert nodes.run(get(A), TIME) == [b"OK", b"OK"]
    assert nodes.run(TIME) == [b"OK"]
    assert nodes.said == [(LEFT, [TIME])]


def test_nodes_that_failed_are_asked_last_for_the_map() -> None:
    """Whoever failed before the last one, too: one that is frozen costs a timeout."""
    nodes = Nodes()
    nodes.run(get(A))
    nodes.cluster.note_failure(SEED, exceptions.ConnectionError("gone"))
    nodes.cluster.note_failure(LEFT, exceptions.ConnectionError("gone"))
    nodes.run(get(B))
    assert nodes.said[0][0] == RIGHT


def test_nobody_can_be_reached() -> None:
    nodes = Nodes(lambda *_: exceptions.ConnectionError("gone"))
    with pytest.raises(exceptions.ConnectionError):
        nodes.run(get(A))


def test_a_user_who_may_not_see_the_map() -> None:
    denied = exceptions.NoPermissionError("User x has no permissions to run the 'cluster|slots' command")
    nodes = Nodes(where=denied)
    with pytest.raises(BrokerRefused, match=r"\+cluster\|slots"):
        nodes.run(get(A))


def test_slots_that_nobody_has() -> None:
    """Any node says what is wrong."""
    nodes = Nodes(lambda node, command: (node.host, command[0]), where=[])
    assert nodes.run(get(A)) == [("seed", b"GET")]
