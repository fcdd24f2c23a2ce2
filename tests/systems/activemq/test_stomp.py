"""The simulator talks STOMP as a real broker was recorded to."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from simulator.systems.activemq.activemq_xml import broker_settings
from simulator.systems.activemq.served_broker import ServedBroker
from simulator.systems.activemq.stomp_connection import StompConnection
from simulator.systems.activemq.stomp_frames import FrameReader, StompError
from tests.systems.activemq.live.record_stomp import recorded
from tests.systems.activemq.live.stomp_cases import TALKS, as_recorded
from tests.systems.activemq.live.stomp_player import Answer, Line, Talk

RECORDED = recorded()
START_MS = 1_600_000_000_000
LEFT_OUT = {
    "timestamp": "the time of the recording",
    "session": "has the identifier that a broker makes, unless the client names itself",
    "message-id": "identifiers are compared by which of them are the same",
    "ack": "likewise",
    "scheduledJobId": "likewise",
}
"""The headers that are not compared as they are, and why. Whether they are there is."""
IN_TEXTS = {
    r"MessageAck \{.*\}": "MessageAck",  # shows all fields of Java's object
    r"ID:[\w.:-]+": "ID",
    r"tcp://[\d.:]+": "tcp",  # the address of a client
    r"\b1\d{12}\b": "TIME",
}


class Wire:
    """A connection to a simulated broker, without a network."""

    def __init__(self, served: ServedBroker) -> None:
        self._served, self._came, self._closed = served, b"", False
        self.connection = StompConnection(served, "tcp://127.0.0.1:1", self._write, self._close)

    def _write(self, data: bytes) -> None:
        self._came += data

    def _close(self) -> None:
        self._closed = True

    def send(self, data: bytes) -> None:
        self.connection.receive(data)
        self._served.pass_time(self._served.trace.now_ms)  # what falls due at once

    def read(self, wait_s: float) -> bytes | None:
        came, self._came = self._came, b""
        return came or (None if self._closed else b"")

    def close(self) -> None:
        self.connection.lost()


class Simulated:
    """A simulated broker in virtual time."""

    def __init__(self, xml: str) -> None:
        self._served = ServedBroker(broker_settings(xml), START_MS)
        self._wires: list[Wire] = []

    def connect(self) -> Line:
        self._wires.append(Wire(self._served))
        return self._wires[-1]

    def wait(self, ms: int) -> None:
        """Let time pass, and the heart-beats with it: a few of each connection, in its own rhythm."""
        for wire in self._wires:
            beats = wire.connection.heart_beats
            for _ in range(ms // beats.writes_ms if beats.writes_ms else 0):
                wire.connection.beat()
            for _ in range(ms // beats.reads_ms if beats.reads_ms else 0):
                wire.connection.listen()
        self._served.pass_time(self.now_ms() + ms)

    def now_ms(self) -> int:
        return self._served.trace.now_ms


def simulated(name: str) -> list[list[Answer]]:
    """What the simulator answers, after each step."""
    return Talk(Simulated(TALKS[name].xml), quiet_s=0).play(TALKS[name].steps)


class Seen:
    """The answers of a broker as they can be compared: an identifier is the number of its first appearance."""

    def __init__(self) -> None:
        self._identifiers: dict[str, int] = {}

    def answers(self, after: list[Answer]) -> list[Any]:
        """What came after one step, by connection and kind: a broker sends those of two kinds in any order."""
        return sorted((self._answer(each) for each in after if "beat" not in each), key=_place)

    def _answer(self, answer: Answer) -> tuple[Any, ...]:
        if "closed" in answer:
            return answer["connection"], "", "closed"
        headers = {name: self._header(name, value) for name, value in sorted(answer["headers"].items())}
        return answer["connection"], headers.get("subscription", ""), answer["frame"], headers, _text(answer["body"])

    def _header(self, name: str, value: str) -> Any:
        if name not in LEFT_OUT:
            return _text(value)
        if name in ("message-id", "ack") and value:
            return self._identifiers.setdefault(value, len(self._identifiers))
        return _text(value) if name == "session" else "left out"


def _place(answer: tuple[Any, ...]) -> tuple[Any, ...]:
    return answer[:3]


def _text(text: str) -> str:
    for pattern, instead in IN_TEXTS.items():
        text = re.sub(pattern, instead, text)
    return text


def compared(answers: list[list[Answer]]) -> Iterator[Any]:
    """What is compared: for each step, and in all whether there were heart-beats."""
    seen = Seen()
    for after in answers:
        yield seen.answers(after)
    yield any({"beat": True} in after for after in answers)


@pytest.mark.parametrize("pieces", [1, 7, 1_000])
def test_frames_come_in_pieces(pieces: int) -> None:
    """However the network cuts them."""
    sent = b"\n\nCONNECT\r\naccept-version:1.2\r\n\r\n\0\n\nSEND\ndestination:/queue/Q\ncontent-length:3\n\na\0b\0\n\n"
    reader = FrameReader()
    found = [frame for at in range(0, len(sent), pieces) for frame in reader.read(sent[at : at + pieces])]
    assert [(frame.command, frame.body) for frame in found] == [("CONNECT", b""), ("SEND", b"a\0b")]


def test_frames_without_end_are_refused() -> None:
    for endless in (b"x" * 2_000_000, b"SEND\n" + b"a:b\n" * 500_000, b"SEND\na:" + b"b" * 20_000 + b"\n\n"):
        with pytest.raises(StompError, match="exceeded") as refused:
            list(FrameReader().read(endless))
        assert refused.value.fatal


@pytest.mark.parametrize("name", TALKS)
def test_the_simulator_talks_as_was_recorded(name: str) -> None:
    assert RECORDED[name]["steps"] == [as_recorded(step) for step in TALKS[name].steps]
    assert list(compared(simulated(name))) == list(compared(RECORDED[name]["answers"]))
