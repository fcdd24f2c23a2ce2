"""What recordings and replays make of clients of AMQP 1.0."""

from __future__ import annotations

from pathlib import Path

import pika
import pytest

pytest.importorskip("proton")

from proton import Delivery, Message, symbol
from proton.utils import BlockingConnection

import simulator
from simulator.capture import open_log
from simulator.definitions import read_definitions
from simulator.record.recorder import ApplicationRecorder
from simulator.record.recording import read_recording
from simulator.replay import replay_table


def test_a_recording_counts_outcomes_and_its_trace_replays(tmp_path: Path) -> None:
    with simulator.serve("4.3", management_port=0) as server:
        recorders: list[ApplicationRecorder] = []
        server.run(lambda node: recorders.append(ApplicationRecorder(node, tmp_path)))
        with pika.BlockingConnection(pika.URLParameters(server.amqp_url)) as connection:
            channel = connection.channel()
            channel.queue_declare("dead", durable=True)
            letters = {"x-queue-type": "quorum", "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
            channel.queue_declare("work", durable=True, arguments=letters)
        client = BlockingConnection(server.amqp_url, user="guest", password="guest")
        sender = client.create_sender("/queues/work")
        for number in range(4):
            annotations = {symbol("x-mine"): number}
            sender.send(Message(body=f"{number}", properties={"number": number}, annotations=annotations, durable=True))
        receiver = client.create_receiver("/queues/work", credit=10)
        for outcome in (Delivery.ACCEPTED, Delivery.REJECTED, Delivery.RELEASED, Delivery.ACCEPTED, Delivery.ACCEPTED):
            receiver.receive(timeout=5)
            receiver.settle(outcome)
        dead = client.create_receiver("/queues/dead", credit=1)
        dead.receive(timeout=5)
        dead.accept()
        client.close()
        server.run(lambda node: recorders[0].stop())

    recording = read_recording(tmp_path)
    work = next(each for each in recording.consumed if each.queue == "work")
    table = replay_table(
        open_log(tmp_path / "trace.jsonl"), read_definitions(tmp_path / "definitions.json"), recording.release
    )
    assert (work.deliveries, work.redeliveries, work.acked, work.rejected, work.requeued) == (5, 1, 3, 1, 1)
    assert table.num_rows == 10
    assert {*table["verdict"].to_pylist()} == {"agree", None}
