"""RabbitMQ is the judge: the steps that `dlx plan` prints, done on a server, lose nothing that it does not name.

Each change is planned for a running server, whose words to declarations are held against those of the plan. Then its
steps are done over HTTP and AMQP, with messages in the queues and a publish after each step. In the end each message is
in a queue of the new topology, and the plan for what is there says that nothing is left to do.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pika
import pika.exceptions
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.compat import long

from simulator.cli.main import main
from simulator.testing.brokers.servers import ManagementError
from tests.live.servers import LiveServer

Capture = pytest.CaptureFixture[str]
Definitions = dict[str, list[dict[str, Any]]]
NO_ROUTE = 312
WAITING = {"orders": 1_000, "orders.dead": 3}


def queue(name: str, **arguments: Any) -> dict[str, Any]:
    table = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
    return {"name": name, "durable": True, "auto_delete": False, "arguments": table}


def exchange(name: str, kind: str) -> dict[str, Any]:
    return {"name": name, "type": kind, "durable": True, "auto_delete": False, "internal": False, "arguments": {}}


def bound(source: str, destination: str, key: str = "", **arguments: Any) -> dict[str, Any]:
    return {"source": source, "destination": destination, "destination_type": "queue", "routing_key": key,
            "arguments": arguments}  # fmt: skip


KEY = "a key/with +%é~"  # the API quotes it twice
SHOP, DLX = exchange("shop", "direct"), exchange("dlx", "fanout")
ORDERS, DEAD = queue("orders", dead_letter_exchange="dlx"), queue("orders.dead")
BINDINGS = [bound("shop", "orders", KEY), bound("dlx", "orders.dead", "", to="tell")]
RENAMED = {"destination": "orders.dlq"}
OLD: Definitions = {"exchanges": [SHOP, DLX], "queues": [ORDERS, DEAD], "bindings": BINDINGS}
BY_POLICY = [{"name": "orders", "pattern": "^orders$", "apply-to": "queues", "priority": 0,
              "definition": {"dead-letter-exchange": "dlx", "message-ttl": 3_600_000}}]  # fmt: skip
CHANGES: Mapping[str, tuple[Definitions, Definitions]] = {
    "a classic queue becomes quorum": (
        OLD, OLD | {"queues": [queue("orders", queue_type="quorum", dead_letter_exchange="dlx"), DEAD]}
    ),
    "arguments go into a policy": (
        OLD | {"queues": [queue("orders", dead_letter_exchange="dlx", message_ttl=3_600_000), DEAD]},
        OLD | {"queues": [queue("orders"), DEAD], "policies": BY_POLICY},
    ),
    "an exchange has another type": (OLD, OLD | {"exchanges": [exchange("shop", "topic"), DLX]}),
    "a dead-letter queue has another name": (
        OLD, OLD | {"queues": [ORDERS, queue("orders.dlq")], "bindings": [BINDINGS[0], BINDINGS[1] | RENAMED]}
    ),
}  # fmt: skip


class Site:
    """A virtual host on a server, with a channel in it that is opened again when the server closes it."""

    def __init__(self, server: LiveServer, vhost: str) -> None:
        self.server, self.vhost = server, vhost
        self.connection = pika.BlockingConnection(pika.URLParameters(server.vhost_url(vhost)))
        self._open: BlockingChannel | None = None
        self.published: list[str] = []

    @property
    def channel(self) -> BlockingChannel:
        if self._open is None or self._open.is_closed:
            self._open = self.connection.channel()
            self._open.confirm_delivery()
        return self._open

    def publish(self, exchange: str, key: str) -> int:
        """Publish a message with an id of its own; return 0, or the code with which the server has it not."""
        properties = pika.BasicProperties(message_id=f"m{len(self.published)}", delivery_mode=2)
        try:
            self.channel.basic_publish(exchange, key, b"", properties, mandatory=True)
        except pika.exceptions.ChannelClosedByBroker as error:
            return int(error.reply_code)
        except pika.exceptions.UnroutableError:
            return NO_ROUTE
        self.published.append(str(properties.message_id))
        return 0

    def declared(self, about: Mapping[str, str], topology: Definitions) -> tuple[int, str]:
        """Declare an object as a topology has it; return the server's code and words, 0 and none where it does so.

        Its integers are sent as those of definitions are: the words name their type.
        """
        part = next(each for each in topology[f"{about['kind']}s"] if each["name"] == about["object"])
        table = {key: long(each) if isinstance(each, int) else each for key, each in part["arguments"].items()}
        try:
            if about["kind"] == "queue":
                self.channel.queue_declare(part["name"], durable=True, arguments=table)
            else:
                self.channel.exchange_declare(part["name"], part["type"], durable=True, arguments=table)
        except pika.exceptions.ChannelClosedByBroker as error:
            return int(error.reply_code), str(error.reply_text)
        return 0, ""

    def ids(self, queue: str) -> Iterator[str]:
        while True:
            method, properties, _ = self.channel.basic_get(queue, auto_ack=True)
            if method is None:
                return
            yield properties.message_id


@pytest.fixture
def site(live_server: LiveServer, live_vhost: str) -> Iterator[Site]:
    found = Site(live_server, live_vhost)
    yield found
    found.connection.close()


def planned(site: Site, new: Path, capsys: Capture, *options: str) -> dict[str, Any]:
    source = f"{site.server.management_url}api/definitions/{quote(site.vhost, safe='')}"
    capsys.readouterr()
    status = main(["plan", source, str(new), "--json", *options])
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert status == (1 if found["loses"] else 0)
    return found


def do(site: Site, act: Mapping[str, Any], journal: Path) -> None:
    """Do what a step says, by the call, or the command, that it prints."""
    if "call" in act:
        site.server.api(act["call"]["method"], act["call"]["path"], act["call"]["body"])
        return
    dlx, redrive, url, *rest = shlex.split(act["command"])
    assert (dlx, redrive, "PASSWORD" in url) == ("dlx", "redrive", True)
    assert main([redrive, site.server.vhost_url(site.vhost), *rest, "--journal", str(journal)]) == 0


@pytest.mark.parametrize("change", CHANGES)
def test_the_steps_do_on_a_server_what_the_plan_says(change: str, site: Site, tmp_path: Path, capsys: Capture) -> None:
    old, wanted = CHANGES[change]
    new = tmp_path / "new.json"
    new.write_text(json.dumps({"original_vhost_name": site.vhost, **wanted}), encoding="utf-8")
    site.server.api("POST", f"definitions/{site.vhost}", old)
    for name, count in WAITING.items():
        for _ in range(count):
            assert site.publish("", name) == 0
    found = planned(site, new, capsys, *(f"--messages={name}={count}" for name, count in WAITING.items()))
    assert not found["loses"], found
    assert found["answers"] or change == "a dead-letter queue has another name"
    for said in found["answers"]:
        assert site.declared(said, wanted) == (said["code"], said["text"])

    refused = []
    for number, step in enumerate(found["steps"], 1):
        for place, act in enumerate(step["acts"]):
            do(site, act, tmp_path / f"{number}.{place}.jsonl")
        if site.publish("shop", KEY):
            refused.append(number)
    told = [step for each in found["refused"] for step in range(each["step"], each["until"])]
    assert refused == told

    for said in found["old_answers"]:
        assert site.declared(said, old) == (said["code"], said["text"])
    assert planned(site, new, capsys)["changes"] == []
    there = [message for each in wanted["queues"] for message in site.ids(each["name"])]
    assert sorted(set(there)) == sorted(site.published)
    assert (len(there) > len(set(there))) <= bool(found["twice"])


STRAIGHT: Definitions = {"queues": [DEAD]}
LOSING: Mapping[str, tuple[Definitions, Definitions, str, str]] = {
    "a queue is away that is published to by its name": (
        STRAIGHT, {"queues": [queue("orders.dead", queue_type="quorum")]}, "", "orders.dead"
    ),
    "a binding is removed": (OLD, OLD | {"bindings": [BINDINGS[1]]}, "shop", KEY),
}  # fmt: skip


@pytest.mark.parametrize("change", LOSING)
def test_what_the_plan_calls_lost_is_lost_in_those_steps(
    change: str, site: Site, tmp_path: Path, capsys: Capture
) -> None:
    old, wanted, exchange, key = LOSING[change]
    new = tmp_path / "new.json"
    new.write_text(json.dumps({"original_vhost_name": site.vhost, **wanted}), encoding="utf-8")
    site.server.api("POST", f"definitions/{site.vhost}", old)
    found = planned(site, new, capsys)
    lost: list[int] = []
    moves: list[Mapping[str, Any]] = []
    for number, step in enumerate(found["steps"], 1):
        for place, act in enumerate(step["acts"]):
            journal = tmp_path / f"{number}.{place}.jsonl"
            try:
                do(site, act, journal)
            except ManagementError:  # what came in after the move: as the step says, it is moved once more
                do(site, moves[-1], journal)
                do(site, act, journal)
            moves += [act] if "move" in act else []
        if site.publish(exchange, key) == NO_ROUTE:
            lost.append(number)
    after = len(found["steps"]) + 1
    told = [range(each["step"], each["until"] or after) for each in found["lost"] if each["kind"] == "published"]
    assert lost == [number for steps in told for number in steps]
    assert lost
    there = [message for each in wanted["queues"] for message in site.ids(each["name"])]
    assert sorted(set(there)) == sorted(site.published)


KEYED: Definitions = {
    "exchanges": [SHOP, exchange("dlx", "direct")],
    "queues": [ORDERS, DEAD],
    "bindings": [bound("shop", "orders", "paid"), bound("dlx", "orders.dead", "paid")],
}
REKEYED: Definitions = {
    "exchanges": [SHOP, exchange("dlx2", "direct")],
    "queues": [queue("orders", dead_letter_exchange="dlx2"), DEAD],
    "bindings": [bound("shop", "orders", "paid"), bound("dlx2", "orders.dead", "paid")],
}


def test_a_message_that_was_moved_dies_as_before(site: Site, tmp_path: Path, capsys: Capture) -> None:
    new = tmp_path / "new.json"
    new.write_text(json.dumps({"original_vhost_name": site.vhost, **REKEYED}), encoding="utf-8")
    site.server.api("POST", f"definitions/{site.vhost}", KEYED)
    assert site.publish("shop", "paid") == 0
    found = planned(site, new, capsys)
    assert not found["loses"], found
    for number, step in enumerate(found["steps"], 1):
        for place, act in enumerate(step["acts"]):
            do(site, act, tmp_path / f"{number}.{place}.jsonl")
    method, properties, _ = site.channel.basic_get("orders")
    site.channel.basic_reject(method.delivery_tag, requeue=False)
    _, dead, _ = next(iter(site.channel.consume("orders.dead", auto_ack=True, inactivity_timeout=10)))
    assert (dead.message_id, dead.headers["x-death"][0]["queue"]) == (properties.message_id, "orders")


def test_an_import_leaves_a_queue_as_it_is_and_says_nothing(site: Site, tmp_path: Path, capsys: Capture) -> None:
    old, wanted = CHANGES["a classic queue becomes quorum"]
    new = tmp_path / "new.json"
    new.write_text(json.dumps({"original_vhost_name": site.vhost, **wanted}), encoding="utf-8")
    site.server.api("POST", f"definitions/{site.vhost}", old)
    found = planned(site, new, capsys)
    assert found["not_imported"] == [{"kind": "queue", "vhost": site.vhost, "object": "orders"}]
    site.server.api("POST", f"definitions/{site.vhost}", wanted)
    assert site.server.api("GET", f"queues/{site.vhost}/orders")["type"] == "classic"
