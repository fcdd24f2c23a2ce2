"""A redrive that is killed at any write at all, and goes on with its journal, loses nothing, and names what is doubled.

Each write to the connection and to the journal is a step: the process is gone before it, or after half of it. The
broker and the client run in one thread, so that every run takes the same steps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from simulator.redrive import execute
from simulator.redrive.execute import Execution, RedriveSource
from simulator.redrive.journal import JournalTotals, RedriveJournal, RedriveRequest
from simulator.redrive.plan import Planned
from simulator.redrive.prediction import Kind, Prediction
from simulator.redrive.waiting import Address, WaitingMessage
from tests.redrive.dead_letters import DEAD, WORK
from tests.redrive.in_memory import Wire
from tests.redrive.killed import Death, Killed
from tests.server.peer import Peer, message, method

pytestmark = pytest.mark.slow
STEPS_MAX = 1_000
FULL, GONE = "full", "gone"
MOVED = ["one", "two", "three", "twin", "twin", "same", "same"]  # the twins have no message id
STAY = ["stays", GONE, FULL]
LATE_S = 0.012  # after two batches more were sent


@pytest.mark.parametrize(
    ("release", "queue_type", "lag_s"),
    [("3.8", "classic", 0), ("3.8", "quorum", LATE_S), ("4.3", "classic", LATE_S), ("4.3", "quorum", 0)],
)
def test_no_kill_loses_a_message(
    release: str, queue_type: str, lag_s: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execute, "BATCH", 2)
    node = Peer.connected(release)
    declare(node, queue_type)
    for step in range(STEPS_MAX):
        fill(node)
        journal, death = tmp_path / f"{step}.jsonl", Death(step)
        ledger = redrive(node, journal, monkeypatch, lag_s, death)
        if death.struck:
            named = named_before(journal)
            ledger = redrive(node, journal, monkeypatch, lag_s, Death(STEPS_MAX))
            assert ledger.possible_duplicates == named
        check(node, ledger, f"killed at step {step}")
        if not death.struck:
            assert step > 50
            return
    raise AssertionError("it never came to its end")


def test_two_kills_lose_no_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one at every fifth step of the run that goes on."""
    node = Peer.connected("4.3")
    declare(node, "quorum")
    for first in range(62, 120, 11):
        for second in range(0, STEPS_MAX, 5):
            fill(node)
            journal, death = tmp_path / f"{first} {second}.jsonl", Death(second)
            redrive(node, journal, monkeypatch, 0.0, Death(first))
            ledger = redrive(node, journal, monkeypatch, 0.0, death)
            if death.struck:
                ledger = redrive(node, journal, monkeypatch, 0.0, Death(STEPS_MAX))
            check(node, ledger, f"killed at steps {first} and {second}")
            if not death.struck:
                break


def test_acknowledgements_that_a_broker_loses_lose_no_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker crashes at each step, and has all messages in the dead-letter queue again, in their order."""
    monkeypatch.setattr(execute, "BATCH", 2)
    node = Peer.connected("4.3")
    declare(node, "classic")
    there = ["stays", *(f"m{number}" for number in range(6)), "stays too"]
    for step in range(STEPS_MAX):
        fill(node, there)
        journal, death = tmp_path / f"{step}.jsonl", Death(step)
        redrive(node, journal, monkeypatch, 0.0, death)
        taken(node, DEAD)
        if not death.struck:
            return
        fill(node, there)
        ledger = redrive(node, journal, monkeypatch, 0.0, Death(STEPS_MAX))
        work = Counter(taken(node, WORK))
        assert work.keys() == {each for each in there if not each.startswith("stays")}, f"lost at step {step}"
        assert not work - Counter(work.keys()) - Counter(ledger.possible_duplicates), f"not named at step {step}"
        assert taken(node, DEAD) == ["stays", "stays too"], f"not left at step {step}"
        assert (ledger.moved.total(), ledger.left) == (6, 2), f"miscounted at step {step}"
    raise AssertionError("it never came to its end")


def check(node: Peer, ledger: JournalTotals, when: str) -> None:
    """Take everything out of the queues, and compare it with what was there, and with what the journal says."""
    work, dead = Counter(taken(node, WORK)), Counter(taken(node, DEAD))
    named = Counter("twin" if name.startswith("content:") else name for name in ledger.possible_duplicates)
    assert not Counter(MOVED) - work, f"lost when {when}"
    assert not work - Counter(MOVED) - named, f"not named when {when}"
    assert sorted(dead.elements()) == sorted(STAY), f"not left when {when}"
    assert (ledger.fates, ledger.refused, ledger.left) == (
        {"arrives": len(MOVED) + 2, "routed nowhere": 1},
        {"routed nowhere": 2, "refused by the broker": 1},
        len(STAY),
    ), when


def redrive(node: Peer, journal: Path, monkeypatch: pytest.MonkeyPatch, lag_s: float, death: Death) -> JournalTotals:
    """Redrive until it ends or death strikes."""
    peer = Peer(node=node.node)
    wires: list[Wire] = []

    def connect(*arguments: Any, **named: Any) -> Wire:
        wires.append(Wire(peer, death.writes, lag_s, *arguments, **named))
        return wires[-1]

    def put(self: RedriveJournal, data: bytes) -> None:
        try:
            write(self, death.writes(data))
        except Killed as killed:
            write(self, killed.through)
            raise

    write = RedriveJournal._put
    with monkeypatch.context() as patched:
        patched.setattr(execute, "GatheringConnection", connect)
        patched.setattr(execute, "time", SimpleNamespace(monotonic=lambda: wires[-1].ioloop.now_s))
        patched.setattr(RedriveJournal, "_put", put)
        ledger = JournalTotals()
        try:
            with RedriveJournal(journal, RedriveRequest("here", "/", DEAD, "origin", "strip")) as opened:
                ledger = opened.ledger
                Execution(RedriveSource("amqp://guest:guest@localhost", "/", DEAD), opened, planned).run()
        except Killed:
            for wire in wires:
                wire.lost()
    return ledger


def named_before(journal: Path) -> list[str]:
    """The ids that the next run names before it does anything."""
    with RedriveJournal(journal, RedriveRequest("here", "/", DEAD, "origin", "strip")) as opened:
        return opened.ledger.doubtful()


def planned(found: WaitingMessage) -> Planned:
    """What is planned, by the message's body: it moves, stays, or does not find room or a queue."""
    what = found.row.payload.decode()
    goes = not what.startswith("stays")
    to = what if what in (FULL, GONE) else WORK
    fate = Prediction(Kind.ARRIVES if goes else Kind.UNROUTABLE)
    return Planned(found, Address("", to), {}, {}, fate, goes)


def declare(node: Peer, queue_type: str) -> None:
    """Declare the dead-letter queue, the queue that messages go to, and one that is full from the beginning."""
    for queue, arguments in (
        (DEAD, {"x-queue-type": queue_type}),
        (WORK, {}),
        (FULL, {"x-max-length": 0, "x-overflow": "reject-publish"}),
    ):
        node.says(method(1, "queue.declare", queue=queue, durable=True, arguments=arguments))


def fill(node: Peer, bodies: Sequence[str] = (*MOVED, *STAY)) -> None:
    """Put messages into the dead-letter queue; of some of the usual ones, two are equal in everything."""
    for body in bodies:
        properties = {} if body == "twin" else {"message_id": body}
        node.says(message(1, DEAD, body.encode(), properties=properties))


def taken(node: Peer, queue: str) -> list[str]:
    """Take everything out of a queue; return the bodies."""
    found = []
    while True:
        got = node.says(method(1, "basic.get", queue=queue, no_ack=True))
        if len(got) == 1:
            return found
        found.append(got[-1][2]["payload"].decode())
