"""A queue with a message that only AMQP 1.0 can carry: ``dlx inspect`` and ``dlx doctor`` say what reading it costs."""

from __future__ import annotations

import uuid
from urllib.parse import urlsplit

import pytest

pytest.importorskip("proton")

import proton
import proton.utils

import simulator
from simulator.cli.main import main


def test_it_is_named_with_what_reading_did(capsys: pytest.CaptureFixture[str]) -> None:
    queue = {"name": "dead", "durable": True, "arguments": {"x-queue-type": "quorum"}}
    with simulator.serve("4.3", definitions={"queues": [{**queue, "vhost": "/"}]}, management_port=0) as server:
        connection = proton.utils.BlockingConnection(urlsplit(server.amqp_url).netloc, allowed_mechs="ANONYMOUS")
        sender = connection.create_sender("/queues/dead")
        for properties in ({}, {"order": uuid.UUID(int=5)}):
            sender.send(proton.Message(body=b"x", durable=True, properties=properties))
        connection.close()
        management = ["--management-url", str(server.management_url)]
        inspected = main(["inspect", server.amqp_url, "dead", *management]), capsys.readouterr().err
        by_api = (
            main(["inspect", server.amqp_url, "dead", *management, "--peek", "management"]),
            capsys.readouterr().err,
        )
        diagnosed = main(["doctor", server.amqp_url, "dead", *management, "--sample", "2"]), capsys.readouterr().out
    for code, said in (inspected, by_api):
        assert (code, "'dead' has a message that the server fails to send by AMQP 0-9-1" in said) == (69, True), said
        assert "that counts as a failed delivery of each: after 20, messages die" in " ".join(said.split())
    code, said = diagnosed
    assert code == 0
    assert "What reading did: the messages that were read went back to the queue, and that counts" in " ".join(
        said.split()
    )


def test_a_dry_run_says_what_amqp_0_9_1_lacks(capsys: pytest.CaptureFixture[str]) -> None:
    queue = {"name": "dead", "durable": True, "arguments": {"x-queue-type": "quorum"}}
    with simulator.serve("4.3", definitions={"queues": [{**queue, "vhost": "/"}]}, management_port=0) as server:
        connection = proton.utils.BlockingConnection(urlsplit(server.amqp_url).netloc, allowed_mechs="ANONYMOUS")
        sender = connection.create_sender("/queues/dead")
        for body in ("text", b"bytes"):
            sender.send(proton.Message(body=body, inferred=True, durable=True, subject="s"))
        connection.close()
        management = ["--management-url", str(server.management_url)]
        main(["redrive", server.amqp_url, "dead", "--to", "", "other", *management])
    said = " ".join(capsys.readouterr().out.split())
    assert "1 came by AMQP 1.0: moving them over AMQP 0-9-1 loses what it lacks: subject, to" in said
