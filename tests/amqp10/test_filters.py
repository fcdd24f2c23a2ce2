"""Filters of streams: which are in force and what they let through, as real servers answered.

    DLX_LIVE_SERVERS=4.0=AMQP_URL|MANAGEMENT_URL,4.3=… python -m tests.amqp10.test_filters

records them: 150 filter sets and 250 SQL expressions, drawn at random, on a stream of 25 messages. Times are those of
the draw: ``UTC()`` is later than all of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import urlsplit

import pika
import pytest
from proton import symbol

import simulator
from dlx.message_filters import SqlError, parse_sql
from simulator.server.amqp10.frames import Attach, Codec, Detach, Disposition, End, Flow, Source, Target, Transfer
from simulator.server.amqp10.messages import APPLICATION_PROPERTIES
from tests.amqp10.filter_draws import draw_filters, draw_message, draw_sql_filter
from tests.amqp10.wire import WireClient
from tests.live.servers import LiveServer, fresh_vhost, given

RECORDED = Path(__file__).parent / "recorded_filters"
RELEASES = ("4.0", "4.3")
MESSAGES = 25
SETS, EXPRESSIONS = 150, 250


class Asked:
    """A stream with messages, over AMQP 1.0, of which filters are asked."""

    def __init__(self, port: int, vhost: str, messages: list[bytes]) -> None:
        self.client = WireClient(port)
        self.client.open(vhost)
        self._seen = int(self.client.begin().next_outgoing_id or 0)
        self._handle = 0
        link = Attach(
            name="publisher", handle=0, role=False, source=Source(), target=Target(address="/queues/s"),
            initial_delivery_count=0,
        )  # fmt: skip
        self.client.send(link)
        self.client.until(Flow)
        for number, message in enumerate(messages):
            self.client.send(Transfer(handle=0, delivery_id=number, delivery_tag=bytes([number])), message)
            self.client.until(Disposition)  # so that each is a chunk of its own

    def answers(self, filters: dict[Any, Any]) -> tuple[dict[Any, Any] | None, list[int]]:
        """Return the filters in force and the numbers of the messages that they let through."""
        handle = self._handle = self._handle % 100 + 1
        source = Source(address="/queues/s", filter=filters)
        self.client.send(
            Attach(name=f"{handle}", handle=handle, role=True, snd_settle_mode=1, source=source, target=Target())
        )
        attached = self.client.until(Attach)[-1][1]
        assert isinstance(attached, Attach), (filters, attached)
        assert attached.source is not None, filters
        found = self._drained(handle)
        self.client.send(Detach(handle=handle, closed=True))
        self.client.until(Detach)
        return attached.source.filter, found

    def _drained(self, handle: int) -> list[int]:
        found: list[int] = []
        self.client.send(
            Flow(
                next_incoming_id=self._seen,
                incoming_window=10_000,
                next_outgoing_id=MESSAGES,
                outgoing_window=10_000,
                handle=handle,
                delivery_count=0,
                link_credit=100,
                drain=True,
            )
        )
        while True:
            _, performative, payload = self.client.receive()
            assert not isinstance(performative, (Detach, End)), performative
            if isinstance(performative, Transfer):
                self._seen = (self._seen + 1) % 2**32
                for section in self.client.sections(payload):
                    if getattr(section, "descriptor", None) == APPLICATION_PROPERTIES:
                        found.append(int(section.value["id"]))
            elif isinstance(performative, Flow) and performative.handle == handle:
                return found


def draws(seed: int, sets: int, expressions: int) -> tuple[list[bytes], list[dict[Any, Any]]]:
    """Return messages and filter sets."""
    random = Random(seed)
    messages = [draw_message(random, number) for number in range(MESSAGES)]
    asked = [draw_filters(random) for _ in range(sets)] + [draw_sql_filter(random) for _ in range(expressions)]
    return messages, asked


def played(release: str, messages: list[bytes], asked: list[dict[Any, Any]]) -> Iterator[Any]:
    """Yield the simulator's answers."""
    with simulator.serve(release=release) as served:
        with pika.BlockingConnection(pika.URLParameters(served.amqp_url)) as connection:
            connection.channel().queue_declare("s", durable=True, arguments={"x-queue-type": "stream"})
        stream = Asked(urlsplit(served.amqp_url).port or 0, "/", messages)
        yield from map(stream.answers, asked)
        stream.client.close()


def live(server: LiveServer, messages: list[bytes], asked: list[dict[Any, Any]]) -> Iterator[Any]:
    """Yield a real server's answers."""
    with fresh_vhost(server) as vhost:
        parameters = pika.URLParameters(server.amqp_url)
        parameters.virtual_host = vhost
        with pika.BlockingConnection(parameters) as connection:
            connection.channel().queue_declare("s", durable=True, arguments={"x-queue-type": "stream"})
        stream = Asked(parameters.port, vhost, messages)
        yield from map(stream.answers, asked)
        stream.client.close()


def record() -> None:
    """Record the answers of the servers of 4.0 and 4.3."""
    codec = Codec()
    for server in given():
        if server.release not in RELEASES:
            continue
        messages, asked = draws(1, SETS, EXPRESSIONS)
        rows = [
            [codec.encode(filters).hex(), codec.encode(in_force).hex(), numbers]
            for filters, (in_force, numbers) in zip(asked, live(server, messages, asked), strict=True)
        ]
        document = {"messages": [message.hex() for message in messages], "filters": rows}
        text = json.dumps(document, separators=(",", ":")).replace("],[", "],\n[").replace('","', '",\n"')
        RECORDED.mkdir(exist_ok=True)
        (RECORDED / f"{server.release}.json").write_text(text + "\n")


@pytest.mark.parametrize("release", RELEASES)
def test_filters_answer_as_real_servers_did(release: str) -> None:
    document = json.loads((RECORDED / f"{release}.json").read_text())
    codec = Codec()
    asked = [codec.decode(bytes.fromhex(filters))[0] for filters, _, _ in document["filters"]]
    messages = [bytes.fromhex(message) for message in document["messages"]]
    wrong = [
        (filters, in_force, numbers)
        for filters, (in_force, numbers), (_, right, wanted) in zip(
            asked, played(release, messages, asked), document["filters"], strict=True
        )
        if (in_force, numbers) != (codec.decode(bytes.fromhex(right))[0], wanted)
    ]
    assert not wrong


@pytest.mark.live
def test_random_filters_answer_as_on_a_real_server(live_server: LiveServer) -> None:
    if live_server.release not in RELEASES:
        pytest.skip("speaks no AMQP 1.0 without a plugin")
    messages, asked = draws(7, 40, 60)
    theirs = list(live(live_server, messages, asked))
    ours = list(played(live_server.release, messages, asked))
    assert [pair for pair in zip(asked, ours, theirs, strict=True) if pair[1] != pair[2]] == []


@pytest.mark.parametrize(
    "text",
    ["x = 1 = 2", "x like 'a'", "p.nothing = 1", "x LIKE 'a!' ESCAPE '!'", "x IS 1", "(x) IS NULL", "'a", "x IN ()"],
)
def test_an_expression_that_servers_do_not_take_is_refused(text: str) -> None:
    with pytest.raises(SqlError, match="expected"):
        parse_sql(text)


def test_a_filter_that_is_not_taken_is_missing_in_the_answer() -> None:
    messages, _ = draws(1, 0, 0)
    wrong = draw_sql_filter(Random(1)) | {symbol("other"): 5}
    ((in_force, _),) = played("4.3", messages, [wrong])
    assert symbol("other") not in in_force


if __name__ == "__main__":
    record()
