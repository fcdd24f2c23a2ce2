"""What a redrive says of the deaths that come after it, and that it sets no trap: the next of them loses nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from dlx.releases import RELEASES, release
from simulator.analysis.snapshot import Snapshot
from simulator.capture.client_rows import delivered_row
from simulator.cli.main import main
from simulator.definitions import parse_definitions
from simulator.redrive.plan import RedriveOptions, RedrivePlanner
from simulator.redrive.prediction import Kind
from simulator.redrive.server import QueueOnServer, server_at
from simulator.redrive.waiting import Address, waiting
from simulator.server import serve
from tests.live.servers import LiveServer
from tests.long import some_in_ci
from tests.redrive.dead_letters import Place, ready, simulated, until
from tests.redrive.futures import on_live, play

SEEDS = range(1, 9)
LOST_LATER = "arrives, and is lost if it dies again"
HELD_LATER = "arrives, and is held if it dies again"
Shown = pytest.CaptureFixture[str]


@pytest.fixture
def shop() -> Iterator[Place]:
    """A simulated 4.3 on which an order died."""
    with simulated("4.3") as place:
        order_dies(place)
        yield place


def order_dies(place: Place, **more: Any) -> None:
    """Reject an order in 'main', whose dead-letter exchange knows it by the key that it was published with."""
    with place.channel() as channel:
        channel.exchange_declare("shop", "topic", durable=True)
        channel.exchange_declare("shop.rejected", "topic", durable=True)
        arguments = {f"x-{name.replace('_', '-')}": value for name, value in more.items()}
        channel.queue_declare("main", durable=True, arguments={"x-dead-letter-exchange": "shop.rejected", **arguments})
        channel.queue_declare("rejected", durable=True)
        channel.queue_bind("main", "shop", "order.paid")
        channel.queue_bind("rejected", "shop.rejected", "order.paid")
        channel.basic_publish("shop", "order.paid", b"order", pika.BasicProperties(message_id="order-1"))
        reject(channel, "main")
        until(lambda: ready(channel, "rejected") == 1)


def reject(channel: BlockingChannel, queue: str) -> None:
    until(lambda: ready(channel, queue) == 1)
    got, _, _ = channel.basic_get(queue)
    assert got is not None
    channel.basic_reject(got.delivery_tag, requeue=False)


def redrive(place: Place, capsys: Shown, code: int, *options: str) -> dict[str, Any]:
    server = place.server
    given = ["redrive", place.amqp_url, "rejected", "--management-url", server.management_url, "--vhost", server.vhost]
    assert main([*given, *options, "--json"]) == code
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def planned(place: Place, capsys: Shown, code: int, *options: str) -> dict[str, Any]:
    """Return what the dry run says of the one message."""
    (message,) = redrive(place, capsys, code, *options)["messages"]
    assert isinstance(message, dict)
    return message


def stays_until_its_key_is_kept(place: Place, folder: Path, capsys: Shown) -> None:
    """What the next rejection would lose is not moved; from where the dry run proposes to bring it, none loses it."""
    message = planned(place, capsys, 1)
    assert (message["fate"], message["goes"], message["safe"]) == (LOST_LATER, False, False)
    (loss,) = message["lost_later"]
    assert (loss["queue"], loss["reasons"], loss["as_before"]) == ("main", ["rejected"], False)
    assert loss["why"] == "exchange 'shop.rejected' routes key 'main' to no queue"
    assert message["instead"]["option"] == "--to published"
    stays = redrive(place, capsys, 1, "--execute", "--journal", str(folder / "origin"))
    assert (stays["moved"], stays["refused"]) == (0, {LOST_LATER: 1})

    assert planned(place, capsys, 0, "--to", "published")["goes"]
    moved = redrive(place, capsys, 0, "--to", "published", "--execute", "--journal", str(folder / "published"))
    assert moved["moved"] == 1
    with place.channel() as channel:
        reject(channel, "main")
        until(lambda: ready(channel, "rejected") == 1)


def is_lost_where_it_is_allowed(place: Place, folder: Path, capsys: Shown) -> None:
    """The trap is real: a person who asks for it loses the message."""
    moved = redrive(place, capsys, 0, "--allow", "lost-later", "--execute", "--journal", str(folder / "allowed"))
    assert (moved["moved"], moved["fates"]) == (1, {LOST_LATER: 1})
    with place.channel() as channel:
        reject(channel, "main")
    assert (place.waiting("main"), place.waiting("rejected")) == ([], [])


def is_held_where_it_is_allowed(place: Place, folder: Path, capsys: Shown) -> None:
    """With at-least-once dead-lettering the next rejection does not lose the message: its queue holds it."""
    order_dies(place, queue_type="quorum", dead_letter_strategy="at-least-once", overflow="reject-publish")
    message = planned(place, capsys, 1)
    assert (message["fate"], message["goes"], message["safe"]) == (HELD_LATER, False, False)
    (ahead,) = message["lost_later"]
    assert (ahead["queue"], ahead["held"], ahead["as_before"]) == ("main", True, False)
    assert message["instead"]["option"] == "--to published"
    assert planned(place, capsys, 0, "--allow", "lost-later")["goes"]
    moved = redrive(place, capsys, 0, "--allow", "held-later", "--execute", "--journal", str(folder / "allowed"))
    assert (moved["moved"], moved["fates"]) == (1, {HELD_LATER: 1})
    with place.channel() as channel:
        reject(channel, "main")
    assert (place.waiting("main"), place.waiting("rejected")) == ([], [])


def test_what_the_next_death_would_hold_is_a_fate_of_its_own(tmp_path: Path, capsys: Shown) -> None:
    with simulated("4.3") as place:
        is_held_where_it_is_allowed(place, tmp_path, capsys)


def test_people_read_where_the_next_death_would_hold_it(capsys: Shown) -> None:
    with simulated("4.3") as place:
        order_dies(place, queue_type="quorum", dead_letter_strategy="at-least-once", overflow="reject-publish")
        assert main(["redrive", place.amqp_url, "rejected", "--management-url", place.server.management_url]) == 1
    assert "again, held in 'main': exchange 'shop.rejected' routes key 'main' to no queue" in capsys.readouterr().out


def test_a_real_server_holds_what_the_redrive_says(
    live_server: LiveServer, live_place: Place, tmp_path: Path, capsys: Shown
) -> None:
    if not release(live_server.release).quorum_at_least_once:
        pytest.skip("this release dead-letters at most once")
    is_held_where_it_is_allowed(live_place, tmp_path, capsys)


@pytest.mark.parametrize("version", ["3.8", "4.3"])
def test_a_redrive_sets_no_trap(version: str, tmp_path: Path, capsys: Shown) -> None:
    with simulated(version) as place:
        order_dies(place)
        stays_until_its_key_is_kept(place, tmp_path, capsys)
        is_lost_where_it_is_allowed(place, tmp_path, capsys)


def test_a_redrive_sets_no_trap_on_a_real_server(live_place: Place, tmp_path: Path, capsys: Shown) -> None:
    order_dies(live_place)
    stays_until_its_key_is_kept(live_place, tmp_path, capsys)
    is_lost_where_it_is_allowed(live_place, tmp_path, capsys)


def test_people_read_what_the_next_death_does_and_what_to_do_instead(shop: Place, capsys: Shown) -> None:
    assert main(["redrive", shop.amqp_url, "rejected", "--management-url", shop.server.management_url]) == 1
    shown = capsys.readouterr().out
    assert f"1 would stay  {LOST_LATER}" in shown
    assert "if rejected again, lost: exchange 'shop.rejected' routes key 'main' to no queue" in shown
    assert "instead: --to published keeps its first routing key, and reaches no other queue" in shown


def test_where_its_first_publish_reaches_others_another_exchange_may_keep_the_key(shop: Place, capsys: Shown) -> None:
    with shop.channel() as channel:
        channel.queue_declare("audit", durable=True)
        channel.queue_bind("audit", "shop", "#")
        none = planned(shop, capsys, 1)["instead"]
        assert none["option"] == ""
        assert none["why_none"] == (
            "--to published reaches 'audit' and 'main', and no exchange routes 'order.paid' to 'main' alone"
            " (a new one that is bound to 'main' by this key would)"
        )
        channel.exchange_declare("again", "direct", durable=True)
        channel.queue_bind("main", "again", "order.paid")
    assert planned(shop, capsys, 1)["instead"]["option"] == "--to again order.paid"
    other = planned(shop, capsys, 0, "order.paid", "--to", "again")
    assert (other["fate"], other["queues"]) == ("arrives", ["main"])


def test_what_would_have_been_lost_before_too_is_named_and_moved(shop: Place, capsys: Shown) -> None:
    with shop.channel() as channel:
        channel.queue_unbind("rejected", "shop.rejected", "order.paid")
        channel.queue_bind("rejected", "shop.rejected", "order.sent")
    message = planned(shop, capsys, 0)
    assert (message["fate"], message["safe"], message["goes"]) == ("arrives", False, True)
    assert [(loss["why"], loss["as_before"]) for loss in message["lost_later"]] == [
        ("exchange 'shop.rejected' routes key 'main' to no queue", True)
    ]
    assert main(["redrive", shop.amqp_url, "rejected", "--management-url", shop.server.management_url]) == 0
    assert "if rejected again, lost, as before: exchange" in capsys.readouterr().out


def test_a_parking_queue_loses_what_is_rejected_there_however_it_came(shop: Place, capsys: Shown) -> None:
    with shop.channel() as channel:
        channel.queue_declare("parking", durable=True)
    message = planned(shop, capsys, 0, "parking", "--to", "")
    assert (message["fate"], message["safe"], message["goes"]) == ("arrives", False, True)
    assert message["lost_later"][0]["why"] == "queue 'parking' has no dead-letter exchange"


def test_a_loss_further_on_counts(shop: Place, capsys: Shown) -> None:
    """It would wait in 'retry', and not find the way back to 'main'."""
    with shop.channel() as channel:
        arguments = {"x-message-ttl": 60_000, "x-dead-letter-exchange": "shop"}
        channel.queue_declare("retry", durable=True, arguments=arguments)
        channel.queue_bind("retry", "shop.rejected", "#")
    assert planned(shop, capsys, 1)["fate"] == LOST_LATER
    assert main(["redrive", shop.amqp_url, "rejected", "--management-url", shop.server.management_url]) == 1
    lost = (
        "if rejected again, it comes to 'retry'; if rejected or expired there, lost: exchange 'shop' routes key 'main'"
    )
    assert lost in capsys.readouterr().out


def test_what_no_death_loses_is_safe(shop: Place, capsys: Shown) -> None:
    """Whatever is rejected comes back in a minute, again and again."""
    with shop.channel() as channel:
        arguments = {"x-message-ttl": 60_000, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "main"}
        channel.queue_delete("main")
        to_retry = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "retry"}
        channel.queue_declare("main", durable=True, arguments=to_retry)
        channel.queue_declare("retry", durable=True, arguments=arguments)
    message = planned(shop, capsys, 0)
    assert (message["safe"], message["lost_later"], message["all_foreseen"]) == (True, [], True)


def test_without_a_history_what_its_key_loses_is_the_redrive_s_doing(shop: Place, capsys: Shown) -> None:
    with shop.channel() as channel:
        channel.queue_purge("rejected")
        channel.basic_publish("", "rejected", b"order")
    message = planned(shop, capsys, 1, "main", "--to", "")
    assert message["fate"] == LOST_LATER
    assert message["instead"]["why_none"] == "no header says how it was published"


def test_what_a_plugin_s_exchange_does_is_not_foreseen() -> None:
    queues = [
        {"name": name, "vhost": "v", "durable": True, "auto_delete": False, "arguments": arguments}
        for name, arguments in (("main", {"x-dead-letter-exchange": "later"}), ("rejected", {}))
    ]
    later = {"name": "later", "vhost": "v", "type": "x-jms-topic", "durable": True, "arguments": {}}
    document = {"rabbitmq_version": "4.3.0", "vhosts": [{"name": "v"}], "queues": queues, "exchanges": [later]}
    snapshot = Snapshot(parse_definitions(json.dumps(document).encode(), "export"), release("4.3"))
    flow = snapshot.flows["v"]
    on_server = QueueOnServer(snapshot, flow, flow.settings("rejected"), 0, ())
    delivery = pika.spec.Basic.Deliver("", 1, False, "later", "order.paid")
    message = waiting(delivered_row("rejected", delivery, pika.BasicProperties(), b"order"))
    planner = RedrivePlanner(flow, {}, RedriveOptions(to=Address("", "main")), of_plugins=on_server.of_plugins)
    fate = planner.planned(message).fate
    assert (fate.kind, fate.future.losses, fate.future.complete, fate.is_safe) == (Kind.ARRIVES, (), False, False)


@pytest.mark.parametrize(
    ("delay", "kind", "why"),
    [
        (5_000, Kind.UNROUTABLE, "the exchange 'by' delays it for 5,000 ms (x-delay): the server returns it"),
        (-5_000, Kind.ARRIVES, ""),
        ("soon", Kind.REFUSED_PUBLISH, "an exchange fails over its headers, which ends the connection"),
    ],
)
def test_what_an_exchange_would_delay_stays(delay: Any, kind: Kind, why: str) -> None:
    """It would be returned, and delivered later all the same."""
    on_server = with_plugins("x-delayed-message", {"x-delayed-type": "direct"})
    properties = pika.BasicProperties(headers={"x-delay": delay})
    message = waiting(
        delivered_row("rejected", pika.spec.Basic.Deliver("", 1, False, "", "rejected"), properties, b"o")
    )
    planner = RedrivePlanner(on_server.flow, {}, RedriveOptions(to=Address("by", "main")))
    found = planner.planned(message)
    assert (found.fate.kind, found.goes, found.fate.why.startswith(why)) == (kind, kind == Kind.ARRIVES, True)


@pytest.mark.parametrize("kind", ["x-consistent-hash", "x-random"])
def test_which_queue_an_exchange_chooses_is_not_foreseen(kind: str) -> None:
    on_server = with_plugins(kind, {})
    deliver = pika.spec.Basic.Deliver("", 1, False, "", "rejected")
    message = waiting(delivered_row("rejected", deliver, pika.BasicProperties(), b"order"))
    to = RedriveOptions(to=Address("by", "key"))
    fate = RedrivePlanner(on_server.flow, {}, to, of_plugins=on_server.of_plugins).planned(message).fate
    assert (fate.kind, fate.future.complete, fate.is_safe) == (Kind.ARRIVES, False, False)


def test_shovels_that_take_messages_meanwhile_are_named() -> None:
    assert with_plugins("fanout", {}).shovels == ("what the shovel 'back' takes out of 'main'",)


def with_plugins(kind: str, arguments: dict[str, Any]) -> QueueOnServer:
    """A server with an exchange of that type before 'main' and 'other', and a shovel behind 'main'."""
    queues = [{"name": name, "vhost": "v", "durable": True, "arguments": {}} for name in ("main", "other", "rejected")]
    by = {"name": "by", "vhost": "v", "type": kind, "durable": True, "arguments": arguments}
    to = {"source": "by", "vhost": "v", "destination_type": "queue", "arguments": {}}
    keys = {"main": "1", "other": "1"} if kind != "x-delayed-message" else {"main": "main"}
    value = {"src-uri": "amqp:///v", "dest-uri": "amqp://elsewhere", "src-queue": "main", "dest-queue": "other"}
    document = {
        "rabbitmq_version": "4.0.5",
        "vhosts": [{"name": "v"}],
        "queues": queues,
        "exchanges": [by],
        "bindings": [{**to, "destination": name, "routing_key": key} for name, key in keys.items()],
        "parameters": [{"component": "shovel", "name": "back", "vhost": "v", "value": value}],
    }
    snapshot = Snapshot(parse_definitions(json.dumps(document).encode(), "export"), release("4.0"))
    flow = snapshot.flows["v"]
    return QueueOnServer(snapshot, flow, flow.settings("rejected"), 0, ())


@pytest.mark.parametrize("version", some_in_ci(RELEASES, ["3.8", "3.12", "4.0", "4.3"]))
def test_predicted_futures_come_true_on_the_simulator(version: str) -> None:
    """``python -m tests.redrive.futures`` tries far more on servers."""
    with serve(version, management_port=0) as server:
        place = Place(server_at(server.amqp_url, server.management_url), version)
        cases = play(place, SEEDS, lambda: server.clock.advance(seconds=2), messages=10)
    assert [wrong for case in cases for wrong in case.wrong] == []
    assert sum(case.compared_with_first for case in cases) > 0


def test_predicted_futures_come_true_on_a_real_server(live_server: LiveServer) -> None:
    cases = on_live(live_server, SEEDS[:4])
    assert [wrong for case in cases for wrong in case.wrong] == []
