"""Dynamic shovels of a served node; ``tests/plugins`` plays the recorded cases."""

from __future__ import annotations

from typing import Any

import pytest

from dlx.death_headers import delivered_headers
from simulator.bootstrap import start_broker
from simulator.broker import Broker
from simulator.broker.commands import Get, OpenChannel, OpenConnection, PassTime, Publish
from simulator.broker.replies import Got

SHOVEL = {"src-uri": "amqp://", "dest-uri": "amqp://", "src-queue": "parked", "dest-queue": "work"}


def definitions(*queues: dict[str, Any], **value: Any) -> dict[str, Any]:
    """Definitions with queues and a shovel."""
    parameter = {"vhost": "/", "component": "shovel", "name": "back", "value": {**SHOVEL, **value}}
    plain = {"vhost": "/", "durable": True, "auto_delete": False, "arguments": {}}
    return {"queues": [{**plain, **queue} for queue in queues], "parameters": [parameter]}


def parked_and_work(**arguments: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    return {"name": "parked"}, {"name": "work", "arguments": arguments}


CHANNEL = ("client", 1)


def started(*queues: dict[str, Any], release: str = "4.3", **value: Any) -> Broker:
    """A broker with queues and a shovel, and a client on ``CHANNEL``."""
    broker = start_broker(release, definitions=definitions(*queues, **value), now_us=0)
    broker.handle(OpenConnection("client"), 0)
    broker.handle(OpenChannel(CHANNEL), 0)
    return broker


def ready(broker: Broker) -> dict[str, int]:
    return {name: queue.store.ready for name, queue in broker.vhosts["/"].queues.items()}


def test_definitions_with_a_shovel_start_it() -> None:
    broker = started(*parked_and_work())
    broker.handle(Publish(CHANNEL, "", "parked"), 0)
    assert ready(broker) == {"parked": 0, "work": 1}


def test_a_message_that_the_destination_refuses_stays_at_the_source() -> None:
    full = {"x-max-length": 0, "x-overflow": "reject-publish"}
    broker = started(*parked_and_work(**full))
    broker.handle(Publish(CHANNEL, "", "parked"), 0)
    broker.handle(PassTime(), 60_000_000)
    assert ready(broker)["work"] == 0
    assert broker.vhosts["/"].queues["parked"].unacked == 1


def test_a_restored_broker_goes_on_with_its_shovels() -> None:
    broker = Broker.restore(started(*parked_and_work()).snapshot())
    broker.handle(Publish(CHANNEL, "", "parked"), 0)
    assert ready(broker) == {"parked": 0, "work": 1}


def test_a_shovel_to_another_server_says_that_it_does_not_run() -> None:
    broker = started(*parked_and_work(), **{"dest-uri": "amqp://orders.example/"})
    broker.handle(Publish(CHANNEL, "", "parked"), 0)
    shovel = broker.vhosts["/"].shovels["back"]
    assert (shovel.state, ready(broker)["parked"]) == ("terminated", 1)
    assert "reaches that node alone" in shovel.reason


def test_a_shovel_from_a_queue_to_itself_does_not_hang_the_broker() -> None:
    broker = started({"name": "parked"}, **{"dest-queue": "parked"})
    broker.handle(Publish(CHANNEL, "", "parked"), 0)
    queue = broker.vhosts["/"].queues["parked"]
    assert queue.store.ready + queue.unacked == 1


@pytest.mark.parametrize(("release", "count"), [("3.13", 5), ("4.3", 1)])
def test_a_retry_loop_through_a_shovel_never_ends(release: str, count: int) -> None:
    """RabbitMQ does not see the cycle; from 4.0 on it does not even count."""
    work = {"x-message-ttl": 1_000, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "parked"}
    broker = started(*parked_and_work(**work), release=release)
    broker.handle(Publish(CHANNEL, "", "work"), 0)
    broker.handle(PassTime(), 5_500_000)
    (got,) = [reply for reply in broker.handle(Get(CHANNEL, "work"), 5_500_000) if isinstance(reply, Got)]
    headers = delivered_headers(got.message, broker.release, got.added)
    assert headers is not None
    assert [death["count"] for death in headers["x-death"]] == [count]
