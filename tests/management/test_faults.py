"""``/api/faults``: faults are set, listed and cleared by HTTP, and what is wrong with a request is named."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pika
import pytest
from pika.exceptions import ChannelClosedByBroker

import simulator
from simulator.broker.commands import AddUser
from simulator.server.faults.fault import FaultError, read_fault
from simulator.server.in_process import Server
from simulator.testing.brokers.servers import ManagementError, call

DEFAULTS = {"vhost": None, "nth": 1, "times": 1, "probability": 1.0, "seed": 0}


@pytest.fixture
def server() -> Iterator[Server]:
    with simulator.serve("4.3", management_port=0) as running:
        yield running


def ask(server: Server, method: str, path: str, body: object = None, user: str = "guest") -> Any:
    url = server.amqp_url.replace("amqp://", f"amqp://{user}:{user}@")
    return call(url, str(server.management_url), method, path, body)


def test_a_fault_is_set_strikes_is_listed_and_cleared(server: Server) -> None:
    fault = {"fault": "refuse_declare", "queue": "orders", "code": 403, "text": "closed for stocktaking"}
    shown = {**fault, **DEFAULTS, "exchange": None, "id": 1, "seen": 0, "struck": 0, "left": 1}
    assert ask(server, "POST", "faults", fault) == shown
    with pika.BlockingConnection(pika.URLParameters(server.amqp_url)) as connection:
        with pytest.raises(ChannelClosedByBroker, match=r"403.*closed for stocktaking"):
            connection.channel().queue_declare("orders")
        assert ask(server, "GET", "faults") == [{**shown, "seen": 1, "struck": 1, "left": 0}]
        assert ask(server, "GET", "faults/1")["struck"] == 1
        ask(server, "DELETE", "faults/1")
        assert ask(server, "GET", "faults") == []
        connection.channel().queue_declare("orders")


def test_all_are_cleared_and_numbers_do_not_come_again(server: Server) -> None:
    for _ in range(2):
        ask(server, "POST", "faults", {"fault": "drop_confirm"})
    ask(server, "DELETE", "faults")
    assert ask(server, "GET", "faults") == []
    assert ask(server, "POST", "faults", {"fault": "drop_confirm"})["id"] == 3


@pytest.mark.parametrize("path", ["faults/1", "faults/x", "faults/0", "faults/99999999999999999999999"])
def test_a_number_that_no_fault_has_is_not_found(server: Server, path: str) -> None:
    for method in ("GET", "DELETE"):
        with pytest.raises(ManagementError, match="404"):
            ask(server, method, path)


def test_only_administrators_set_and_clear(server: Server) -> None:
    server.handle(AddUser("looker", "looker", ("monitoring",)))
    assert ask(server, "GET", "faults", user="looker") == []
    for method in ("POST", "DELETE"):
        with pytest.raises(ManagementError, match="Not administrator"):
            ask(server, method, "faults", {"fault": "drop_confirm"}, user="looker")


def test_a_queue_that_is_not_there_is_noted_with_the_nearest(server: Server) -> None:
    with pika.BlockingConnection(pika.URLParameters(server.amqp_url)) as connection:
        connection.channel().queue_declare("orders")
    note = ask(server, "POST", "faults", {"fault": "close_channel", "queue": "oders"})["note"]
    assert note == "there is no queue 'oders' now; did you mean 'orders'?"
    note = ask(server, "POST", "faults", {"fault": "drop_confirm", "exchange": "amq.topik"})["note"]
    assert note.startswith("there is no exchange 'amq.topik' now; did you mean 'amq.topic'")
    assert "note" not in ask(server, "POST", "faults", {"fault": "close_channel", "queue": "orders"})


def test_a_declaration_by_http_is_refused_too(server: Server) -> None:
    ask(server, "POST", "faults", {"fault": "refuse_declare", "queue": "orders", "text": "not now"})
    with pytest.raises(ManagementError, match="not now"):
        ask(server, "PUT", "queues/%2F/orders", {})
    ask(server, "PUT", "queues/%2F/orders", {})


@pytest.mark.parametrize("resource", ["memory", "disk"])
def test_an_alarm_is_told_by_the_api(server: Server, resource: str) -> None:
    ask(server, "POST", "faults", {"fault": "alarm", "resource": resource})
    (node,) = ask(server, "GET", "nodes")
    assert (node["mem_alarm"], node["disk_free_alarm"]) == (resource == "memory", resource == "disk")
    with pytest.raises(ManagementError, match="503 There are alarms in effect"):
        ask(server, "GET", "health/checks/alarms")
    ask(server, "DELETE", "faults")
    assert ask(server, "GET", "health/checks/alarms") == {"status": "ok"}


def test_what_is_wrong_is_a_bad_request_in_words(server: Server) -> None:
    with pytest.raises(ManagementError, match=r"400.*nht: close_channel has no such field; did you mean 'nth'"):
        ask(server, "POST", "faults", {"fault": "close_channel", "nht": 2})


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ({}, "fault: expected the name of a fault, got None; there are close_channel, close_connection, "),
        ({"fault": "close_chanel"}, "fault: no fault 'close_chanel'; did you mean 'close_channel'"),
        ({"fault": "drop_confirm", "queue": "q"}, "queue: drop_confirm has no such field; there are 'exchange', "),
        ({"fault": "close_channel", "nth": 0}, "nth: expected `int` >= 1"),
        ({"fault": "close_channel", "times": "2"}, "times: expected `int | null`, got `str`"),
        ({"fault": "close_channel", "probability": 1.5}, "probability: expected `float` <= 1.0"),
        ({"fault": "close_channel", "code": 541}, "code: expected one that ends a channel (311, 312, 313, 403, "),
        ({"fault": "close_connection", "code": 406}, "code: expected one that ends a connection (320, 402, 501, "),
        ({"fault": "refuse_declare", "queue": "q", "code": 200}, "code: expected a reply code (311, 312, "),
        ({"fault": "refuse_declare"}, "queue, exchange: expected one of the two"),
        ({"fault": "refuse_declare", "queue": "q", "exchange": "q"}, "queue, exchange: expected one of the two"),
        ({"fault": "delay_delivery"}, "delay_ms: expected a value, got none"),
        ({"fault": "delay_confirm", "delay_ms": -1}, "delay_ms: expected `int` >= 1"),
        ({"fault": "alarm", "resource": "disc"}, "resource: no resource 'disc'; did you mean 'disk'?"),
        ({"fault": "alarm", "resource": "memory", "times": 2}, "times: alarm has no such field; there are "),
    ],
)
def test_an_error_names_the_field_and_what_would_be_right(document: dict[str, Any], says: str) -> None:
    with pytest.raises(FaultError) as error:
        read_fault(document)
    assert says in str(error.value)
