"""The fixture ``dlx_activemq``: a simulated ActiveMQ for the clients of a test."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

CLIENT = """
import socket

import pytest


class Client:
    def __init__(self, broker):
        self.socket = socket.create_connection((broker.host, broker.port), timeout=10)
        self.left = b""
        self.say("CONNECT", "accept-version:1.2", "host:x")
        assert self.hear().startswith("CONNECTED")

    def say(self, command, *headers, body=""):
        lines = "".join(header + chr(10) for header in headers)
        self.socket.sendall(f"{command}{chr(10)}{lines}{chr(10)}{body}{chr(0)}".encode())

    def hear(self):
        while bytes(1) not in self.left:
            came = self.socket.recv(65536)
            assert came
            self.left += came
        frame, _, self.left = self.left.partition(bytes(1))
        return frame.decode().lstrip()

    def send(self, *headers):
        self.say("SEND", "destination:/queue/orders", "persistent:true", "receipt:sent", *headers, body="A")
        assert self.hear().startswith("RECEIPT")

    def reject(self):
        self.say("SUBSCRIBE", "id:1", "destination:/queue/orders", "ack:client-individual")
        message = self.hear()
        ack = dict(line.split(":", 1) for line in message.splitlines()[1:] if ":" in line)["ack"]
        self.say("NACK", "id:" + ack.replace(chr(92) + "c", ":"))


@pytest.fixture
def client(dlx_activemq):
    client = Client(dlx_activemq)
    yield client
    client.socket.close()


"""


def test_a_rejected_message_and_one_that_expires_are_dead(inner: pytest.Pytester) -> None:
    inner.makepyfile(
        CLIENT
        + """
def test_it(dlx_activemq, client):
    client.send()
    client.reject()
    [letter] = dlx_activemq.wait_for("ActiveMQ.DLQ", 1)
    assert letter["originalDestination"] == "queue://orders"
    client.say("UNSUBSCRIBE", "id:1", "receipt:gone")
    client.hear()

    client.send(f"expires:{dlx_activemq.now_ms() + 60_000}")
    assert dlx_activemq.queues() == {"queue://orders": 1, "queue://ActiveMQ.DLQ": 1}
    dlx_activemq.advance(minutes=5)
    assert dlx_activemq.messages("orders") == []
    assert len(dlx_activemq.dead_letters()) == 2
    with pytest.raises(AssertionError, match="expected 7 in orders within 0 s; there is queue://ActiveMQ.DLQ: 2"):
        dlx_activemq.wait_for("orders", 7, within_s=0)

def test_another(dlx_activemq):
    assert dlx_activemq.queues() == {}
"""
    )
    inner.runpytest_inprocess().assert_outcomes(passed=2)


def test_it_has_the_configuration_of_the_marker(inner: pytest.Pytester) -> None:
    policy = (
        '<policyEntry queue="&gt;"><deadLetterStrategy><individualDeadLetterStrategy queuePrefix="DEAD."/>'
        "</deadLetterStrategy></policyEntry>"
    )
    entries = f"<destinationPolicy><policyMap><policyEntries>{policy}</policyEntries></policyMap></destinationPolicy>"
    broker = f'<broker xmlns="http://activemq.apache.org/schema/core">{entries}</broker>'
    (inner.path / "activemq.xml").write_text(
        f'<beans xmlns="http://www.springframework.org/schema/beans">{broker}</beans>'
    )
    (inner.path / "wrong.xml").write_text("<beans>")
    inner.makepyfile(
        CLIENT
        + """
@pytest.mark.dlx_activemq("activemq.xml")
def test_it(dlx_activemq, client):
    client.send()
    client.reject()
    dlx_activemq.wait_for("DEAD.orders", 1)
    assert dlx_activemq.queues() == {}, "to see what became of them"

@pytest.mark.dlx_activemq("wrong.xml")
def test_wrong(dlx_activemq): ...

@pytest.mark.dlx_activemq("absent.xml")
def test_absent(dlx_activemq): ...

@pytest.mark.dlx_activemq
def test_none(dlx_activemq): ...
"""
    )
    result = inner.runpytest_inprocess()
    result.assert_outcomes(failed=1, errors=3)
    told = result.stdout.str()
    assert "what became of the messages" in told
    assert "dead-lettered" in told
    assert "@pytest.mark.dlx_activemq: " in told
    assert "wrong.xml: line 1" in told
    assert "absent.xml" in told
    assert "expected @pytest.mark.dlx_activemq(file)" in told
