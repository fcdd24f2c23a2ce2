"""``dlx plan``: what changes, what the server refuses, in which steps it is done, and what is lost on the way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pika
import pytest

from simulator import serve
from simulator.cli.main import main

Capture = pytest.CaptureFixture[str]
Topology = dict[str, list[dict[str, Any]]]


def queue(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}}


def bound(source: str, destination: str, key: str = "") -> dict[str, Any]:
    return {"source": source, "destination": destination, "destination_type": "queue", "routing_key": key}


SHOP, DLX = {"name": "shop", "type": "direct"}, {"name": "dlx", "type": "fanout"}
ORDERS, DEAD = queue("orders", dead_letter_exchange="dlx"), queue("orders.dead")
PAID, DIED = bound("shop", "orders", "paid"), bound("dlx", "orders.dead", "#")
OLD: Topology = {"exchanges": [SHOP, DLX], "queues": [ORDERS, DEAD], "bindings": [PAID, DIED]}
QUORUM = OLD | {"queues": [queue("orders", queue_type="quorum", dead_letter_exchange="dlx"), DEAD]}


@pytest.fixture
def files(tmp_path: Path) -> Any:
    """Write topologies of the virtual host ``/``, and return their paths."""

    def write(*topologies: Topology) -> list[str]:
        paths = [tmp_path / f"{number}.json" for number in range(len(topologies))]
        for path, topology in zip(paths, topologies, strict=True):
            sections = {name: [{"vhost": "/", **each} for each in items] for name, items in topology.items()}
            document = {"rabbit_version": "4.3.0", "vhosts": [{"name": "/"}], **sections}
            path.write_text(json.dumps(document), encoding="utf-8")
        return list(map(str, paths))

    return write


def answer(capsys: Capture, *args: str) -> tuple[int, dict[str, Any]]:
    status = main(["plan", *args, "--json"])
    return status, json.loads(capsys.readouterr().out)


def lost(found: dict[str, Any]) -> list[tuple[str, int, int | None, int | None]]:
    return [(each["what"], each["step"], each["until"], each["count"]) for each in found["lost"]]


def done(found: dict[str, Any]) -> list[str]:
    return [each["does"] for each in found["steps"]]


def test_nothing_to_do(files: Any, capsys: Capture) -> None:
    """A type that one export names and the other leaves out is no change."""
    old, new = files(OLD, OLD | {"queues": [ORDERS, queue("orders.dead", queue_type="classic")]})
    assert main(["plan", old, new]) == 0
    assert capsys.readouterr().out.startswith("No changes: the server has all that")


def test_a_queue_of_another_type_changes_places_with_one_that_keeps_its_messages(files: Any, capsys: Capture) -> None:
    status, found = answer(capsys, *files(OLD, QUORUM), "--messages", "orders=1000")
    assert (status, found["lost"], found["new_errors"]) == (0, [], [])
    words = "PRECONDITION_FAILED - inequivalent arg 'x-queue-type' for queue 'orders' in vhost '/': "
    words += "received {} but current is {}"
    about = {"kind": "queue", "vhost": "/", "object": "orders"}
    assert found["answers"] == [{**about, "code": 406, "text": words.format("'quorum'", "'classic'")}]
    assert found["old_answers"] == [{**about, "code": 406, "text": words.format("'classic'", "'quorum'")}]
    assert found["not_imported"] == [about]
    deleted = {"again": True, "messages": 1000, "consumers": None, "bindings": ["shop → orders by 'paid'"]}
    assert found["deletions"] == [{**about, **deleted}]
    assert done(found) == [
        "declare for the time being: exchange 'orders.moving', queue 'orders.moving', 2 bindings",
        "remove 1 binding of 'orders'",
        "move the messages out of 'orders'",
        "delete queue 'orders'",
        "declare again: queue 'orders', 2 bindings",
        "remove 2 bindings of 'orders.moving'",
        "move the messages back into 'orders'",
        "delete 'orders.moving': queues and exchanges",
    ]
    assert len(found["twice"]) == 1


def test_a_change_of_a_policy_is_told_for_its_queues_and_comes_before_the_queue_that_needs_it(
    files: Any, capsys: Capture
) -> None:
    policy = {
        "name": "dead",
        "pattern": "^orders$",
        "apply-to": "queues",
        "definition": {"dead-letter-exchange": "dlx"},
    }
    status, found = answer(capsys, *files(OLD, OLD | {"queues": [queue("orders"), DEAD], "policies": [policy]}))
    assert (status, found["lost"]) == (0, [])
    effect = {"key": "dead-letter-exchange", "before": '"dlx"', "before_by": "argument",
              "after": '"dlx"', "after_by": "policy dead"}  # fmt: skip
    assert found["policy_effects"] == [{"kind": "queue", "vhost": "/", "object": "orders", **effect}]
    assert done(found)[0] == "set policy 'dead'"
    assert found["steps"][0]["acts"][0]["call"]["path"] == "policies/%2F/dead"


def test_publishers_are_refused_while_an_exchange_is_away(files: Any, capsys: Capture) -> None:
    status, found = answer(capsys, *files(OLD, OLD | {"exchanges": [{**SHOP, "type": "topic"}, DLX]}))
    assert (status, found["lost"]) == (0, [])
    assert [(each["what"], each["step"], each["until"]) for each in found["refused"]] == [
        ("publishes to exchange 'shop' with key 'paid'", 1, 2)
    ]


def test_dead_letters_are_lost_while_their_exchange_is_away(files: Any, capsys: Capture) -> None:
    status, found = answer(capsys, *files(OLD, OLD | {"exchanges": [SHOP, {**DLX, "type": "topic"}]}))
    assert status == 1
    assert ("dead letters of 'orders' with key 'paid'", 1, 2, None) in lost(found)


def test_what_is_published_straight_to_a_queue_is_lost_while_it_is_away(files: Any, capsys: Capture) -> None:
    paths = files({"queues": [DEAD]}, {"queues": [queue("orders.dead", queue_type="quorum")]})
    status, found = answer(capsys, *paths)
    assert status == 1
    assert lost(found) == [("publishes to the default exchange with key 'orders.dead'", 3, 4, None)]
    _, found = answer(capsys, *paths, "--publishers-stopped")
    assert found["lost"] == []


def test_a_queue_that_has_another_name_keeps_its_messages(files: Any, capsys: Capture) -> None:
    renamed = OLD | {"queues": [ORDERS, queue("dlq")], "bindings": [PAID, bound("dlx", "dlq", "#")]}
    status, found = answer(capsys, *files(OLD, renamed))
    assert (status, found["lost"]) == (0, [])
    assert "move the messages of 'orders.dead'" in done(found)
    assert any("'dlq' replaces 'orders.dead'" in each for each in found["assumed"])


def test_a_queue_that_is_only_added_loses_nothing(files: Any, capsys: Capture) -> None:
    added = OLD | {"queues": [ORDERS, DEAD, queue("audit")], "bindings": [PAID, DIED, bound("shop", "audit", "paid")]}
    status, found = answer(capsys, *files(OLD, added))
    assert (status, found["lost"]) == (0, [])
    assert done(found) == ["declare what is new: queue 'audit', 1 binding"]


def test_a_key_that_reaches_no_queue_any_more_is_lost_for_good(files: Any, capsys: Capture) -> None:
    old, new = files(OLD, OLD | {"bindings": [DIED]})
    status, found = answer(capsys, old, new)
    assert status == 1
    assert ("publishes to exchange 'shop' with key 'paid'", 1, None, None) in lost(found)
    assert main(["plan", old, new, "--keep"]) == 0
    assert capsys.readouterr().out.startswith("No changes")


def test_the_queue_that_gets_dead_letters_is_missed_when_it_is_removed(files: Any, capsys: Capture) -> None:
    paths = files(OLD, OLD | {"queues": [ORDERS], "bindings": [PAID]})
    status, found = answer(capsys, *paths, "--messages", "orders.dead=7")
    assert status == 1
    assert ("messages in 'orders.dead'", 2, None, 7) in lost(found)
    assert ("dead letters of 'orders' with key 'paid'", 1, None, None) in lost(found)
    assert [(each["code"], each["object"]) for each in found["new_errors"]] == [("DLX003", "orders")]
    _, found = answer(capsys, *paths, "--messages", "orders.dead=0")
    assert "wait until consumers have taken what is in 'orders.dead'" in done(found)
    assert not any(what.startswith("messages") for what, *_ in lost(found))


def test_messages_that_have_no_room_are_named(files: Any, capsys: Capture) -> None:
    shorter = OLD | {"queues": [queue("orders", dead_letter_exchange="dlx", max_length=600), DEAD]}
    full = OLD | {"queues": [queue("orders", max_length=600, overflow="reject-publish"), DEAD]}
    stays = "messages that 'orders' has no room for: they stay in 'orders.moving'"
    for new in (shorter, full, shorter | {"queues": [queue("orders", queue_type="quorum", max_length=600), DEAD]}):
        status, found = answer(capsys, *files(OLD, new), "--messages", "orders=1000")
        assert status == 1
        (stay,) = (each for each in found["lost"] if each["kind"] == "staying")
        assert (stay["what"], stay["count"]) == (stays, 400)
        deleted = [act["call"]["path"] for step in found["steps"][4:] for act in step["acts"] if "call" in act]
        assert not any("moving?" in path for path in deleted)
        assert done(found)[-1] == "keep 'orders.moving': messages stay there"


DLX2 = {"name": "dlx2", "type": "direct"}
KEYED: Topology = {
    "exchanges": [SHOP, {"name": "dlx", "type": "direct"}],
    "queues": [ORDERS, DEAD],
    "bindings": [PAID, bound("dlx", "orders.dead", "paid")],
}
REBOUND: Topology = {
    "exchanges": [SHOP, DLX2],
    "queues": [queue("orders", dead_letter_exchange="dlx2"), DEAD],
    "bindings": [PAID, bound("dlx2", "orders.dead", "paid")],
}


def test_messages_keep_their_keys_on_the_way_out_and_back(
    files: Any, capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dead letter that keeps its key is routed by it, after the move as before."""
    monkeypatch.chdir(tmp_path)
    old, new = files(KEYED, REBOUND)
    with (
        serve("4.3", definitions=old, management_port=0) as server,
        pika.BlockingConnection(pika.URLParameters(server.amqp_url)) as connection,
    ):
        channel = connection.channel()
        channel.confirm_delivery()
        copied = pika.BasicProperties(headers={"CC": ["copied"]})
        channel.basic_publish("shop", "paid", b"", copied)
        _, found = answer(capsys, str(server.management_url), new)
        moves = [act["move"] for step in found["steps"] for act in step["acts"] if "move" in act]
        assert [each["queue"] for each in moves] == ["orders", "orders.moving"]
        channel.exchange_declare("way", "fanout")
        channel.queue_declare("orders.moving")
        channel.queue_bind("orders.moving", "way")
        command = ["redrive", str(server.amqp_url), "orders", "--management-url", str(server.management_url)]
        given = ["--to", "way", "--own-keys", "--headers", "keep", "--allow", "lost-later", "--execute"]
        assert main([*command, *given]) == 0
        method, properties, _ = channel.basic_get("orders.moving")
        assert (method.exchange, method.routing_key, properties.headers) == ("way", "paid", {"CC": ["copied"]})


def test_a_queue_that_loses_the_dead_letters_of_what_is_moved_into_it_is_named(files: Any, capsys: Capture) -> None:
    other = queue("other", dead_letter_exchange="dlx2")
    old, new = files(
        KEYED | {"exchanges": [*KEYED["exchanges"], DLX2], "queues": [ORDERS, DEAD, other]},
        KEYED | {"exchanges": [*KEYED["exchanges"], DLX2], "queues": [DEAD, other], "bindings": [KEYED["bindings"][1]]},
    )
    status, found = answer(capsys, old, new, "--move", "orders=other")
    assert status == 1
    assert any(what == "dead letters of what was moved into 'other' with key 'paid'" for what, *_ in lost(found))


def test_exchanges_of_plugins_keep_their_types(files: Any, capsys: Capture) -> None:
    selected = {"name": "shop", "type": "x-federation-upstream"}
    by_header = selected | {"arguments": {"hash-header": "tenant"}}
    for old, new in (({**SHOP, "type": "topic"}, selected), (selected, by_header)):
        status, found = answer(capsys, *files(OLD | {"exchanges": [old, DLX]}, OLD | {"exchanges": [new, DLX]}))
        assert (status, found["answers"], found["left_alone"]) == (0, [], [])
        (made,) = (act["call"]["body"] for act in found["steps"][-1]["acts"])
        assert made["exchanges"][0]["type"] == new["type"]
        assert "what the server says to declarations of 'shop', of a plugin's type" in found["unchecked"]
        assert any(each.startswith("how exchange 'shop' routes") for each in found["unchecked"])


def test_a_delayed_exchange_is_declared_again_when_its_arguments_change(files: Any, capsys: Capture) -> None:
    """No server compares them, so that the old ones would stay."""
    direct = {"name": "shop", "type": "x-delayed-message", "arguments": {"x-delayed-type": "direct"}}
    fanout = direct | {"arguments": {"x-delayed-type": "fanout"}}
    status, found = answer(capsys, *files(OLD | {"exchanges": [direct, DLX]}, OLD | {"exchanges": [fanout, DLX]}))
    assert (status, [each["code"] for each in found["answers"]]) == (0, [0])
    assert not any("'shop'" in each for each in found["unchecked"])
    (made,) = (act["call"]["body"] for act in found["steps"][-1]["acts"])
    assert made["exchanges"][0]["arguments"] == fanout["arguments"]
    kept = "what the plugin of x-delayed-message keeps for 'shop' goes with it, such as messages that it delays"
    assert kept in found["steps"][0]["risks"]
    status, found = answer(capsys, *files(OLD, OLD | {"exchanges": [fanout, DLX]}))
    assert [each["code"] for each in found["answers"]] == [406]


def test_of_several_virtual_hosts_it_is_told_in_which_something_is_lost(tmp_path: Path, capsys: Capture) -> None:
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    vhosts = [{"name": "/"}, {"name": "eu"}]
    old.write_text(json.dumps({"vhosts": vhosts, "queues": [{**DEAD, "vhost": "eu"}]}), encoding="utf-8")
    new.write_text(json.dumps({"vhosts": vhosts, "queues": []}), encoding="utf-8")
    _, found = answer(capsys, str(old), str(new), "--messages", "orders.dead=2", "--publishers-stopped")
    assert lost(found)[0] == ("messages in 'orders.dead' in virtual host 'eu'", 1, None, 2)


def test_keys_that_change_places_come_to_both_queues(files: Any, capsys: Capture) -> None:
    def keyed(one: str, other: str) -> Topology:
        return OLD | {"bindings": [bound("shop", "orders", one), bound("shop", "orders.dead", other)]}

    status, found = answer(capsys, *files(keyed("a", "b"), keyed("b", "a")))
    assert status == 0
    to_both = "until the old bindings are removed, it comes to 'orders' and 'orders.dead'"
    assert found["twice"] == [f"publishes to exchange 'shop' with key '{key}': {to_both}" for key in "ab"]


def test_a_key_that_no_binding_names_is_not_made_up(files: Any, capsys: Capture) -> None:
    rest = {**SHOP, "arguments": {"alternate-exchange": "dlx"}}
    _, found = answer(
        capsys, *files(OLD | {"exchanges": [rest, DLX]}, OLD | {"exchanges": [rest, DLX], "bindings": [PAID]})
    )
    assert any(what == "publishes to exchange 'shop' with any key that no binding names" for what, *_ in lost(found))


def test_an_argument_that_no_server_compares_stays(files: Any, capsys: Capture) -> None:
    old, new = (OLD | {"exchanges": [{**SHOP, "arguments": {"foo": n}}, DLX]} for n in (1, 2))
    _, found = answer(capsys, *files(old, new))
    assert (found["left_alone"], found["steps"]) == ([{"kind": "exchange", "vhost": "/", "object": "shop"}], [])


def test_a_queue_that_goes_with_its_last_consumer_cannot_be_moved(files: Any, capsys: Capture) -> None:
    old, new = files({"queues": [{**DEAD, "auto_delete": True}]}, {"queues": [DEAD]})
    status, found = answer(capsys, old, new, "--messages", "orders.dead=3", "--publishers-stopped")
    assert (status, lost(found)) == (1, [("messages in 'orders.dead'", 2, None, 3)])
    risks = [risk for step in found["steps"] for risk in step["risks"]]
    assert any(risk.startswith("'orders.dead' is auto_delete") for risk in risks)
    assert not any(risk.startswith("stop the consumers") for risk in risks)


def test_a_queue_that_expires_keeps_its_consumers_until_it_is_moved(files: Any, capsys: Capture) -> None:
    old, new = files(OLD | {"queues": [queue("orders", expires=3000), DEAD]}, OLD | {"queues": [queue("orders"), DEAD]})
    _, found = answer(capsys, old, new)
    risks = [risk for step in found["steps"] for risk in step["risks"]]
    assert any("'orders' is deleted with its messages 3,000 ms after its last consumer" in risk for risk in risks)
    assert not any(risk.startswith("stop the consumers") for risk in risks)


def test_an_internal_exchange_that_exports_leave_out_stays(files: Any, capsys: Capture) -> None:
    inner = {"name": "inner", "type": "topic", "internal": True}
    link = {**bound("shop", "inner", "paid"), "destination_type": "exchange"}
    whole = {"bindings": [PAID, DIED, link, bound("inner", "orders.dead", "#")]}
    old, new = files(OLD | whole | {"exchanges": [SHOP, DLX, inner]}, OLD | whole)
    status, found = answer(capsys, old, new)
    assert (status, found["changes"]) == (0, [])
    assert any(each.startswith("whether exchange 'inner' should go") for each in found["unchecked"])


def test_a_queue_that_an_earlier_plan_left_gives_back_what_it_has(files: Any, capsys: Capture) -> None:
    moving = queue("orders.moving")
    status, found = answer(
        capsys, *files(OLD | {"queues": [ORDERS, DEAD, moving]}, OLD), "--messages", "orders.moving=5"
    )
    assert (status, found["lost"]) == (0, [])
    assert [act["move"]["to"] for step in found["steps"] for act in step["acts"] if "move" in act] == ["orders"]
    full = OLD | {"queues": [queue("orders", max_length=2), DEAD]}
    waiting = ["--messages", "orders.moving=5", "--messages", "orders=2"]
    status, found = answer(capsys, *files(full | {"queues": [*full["queues"], moving]}, full), *waiting)
    assert status == 1
    assert lost(found) == [("messages that 'orders' has no room for: they stay in 'orders.moving'", 2, None, 5)]
    way = [{"name": "orders.dead.moving", "type": "fanout"}, bound("orders.dead.moving", "dlq")]
    renamed = OLD | {"queues": [ORDERS, queue("dlq")], "bindings": [PAID, bound("dlx", "dlq", "#")]}
    begun = {"exchanges": [SHOP, DLX, way[0]], "queues": [ORDERS, DEAD, queue("dlq")]}
    status, found = answer(capsys, *files(renamed | begun | {"bindings": [*renamed["bindings"], way[1]]}, renamed))
    assert (status, found["lost"], found["refused"]) == (0, [], [])
    assert [act["move"]["to"] for step in found["steps"] for act in step["acts"] if "move" in act] == ["dlq"]


def test_what_comes_into_a_queue_that_is_removed_is_taken_by_its_consumers(files: Any, capsys: Capture) -> None:
    old, new = files(OLD | {"queues": [ORDERS, DEAD, queue("alone")]}, OLD)
    status, found = answer(capsys, old, new, "--messages", "alone=0")
    assert status == 1
    assert lost(found) == [("publishes to the default exchange with key 'alone'", 2, None, None)]


def test_a_long_name_leaves_room_for_what_is_added(files: Any, capsys: Capture) -> None:
    (_, found) = answer(capsys, *files(*({"queues": [queue("é" * 125, max_length=n)]} for n in (5, 6))))
    made = found["steps"][0]["acts"][0]["call"]["body"]["queues"][0]["name"]
    assert len(made.encode()) <= 255
    assert made.endswith("é.moving")


def test_the_count_of_a_quorum_queue_is_looked_at_before_it_is_deleted(files: Any, capsys: Capture) -> None:
    _, found = answer(capsys, *files(QUORUM, OLD))
    (step,) = (each for each in found["steps"] if each["does"] == "delete queue 'orders'")
    assert [(act["call"]["method"], act["call"]["path"]) for act in step["acts"]] == [
        ("GET", "queues/%2F/orders?columns=messages"), ("DELETE", "queues/%2F/orders")
    ]  # fmt: skip
    assert any(each.startswith("delete a queue only if the move left 0 in it") for each in step["risks"])


def test_people_read_the_loss_first_and_then_the_steps_with_commands_without_a_password(
    files: Any, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    old, new = files({"queues": [DEAD]}, {"queues": [queue("orders.dead", queue_type="quorum")]})
    assert main(["plan", old, new]) == 1
    out = capsys.readouterr().out
    assert out.startswith("lost: publishes to the default exchange with key 'orders.dead', from step 3 on until step 4")
    assert "curl -fsS -u USER -X DELETE 'http://HOST:15672/api/queues/%2F/orders.dead?if-empty=true'" in out
    assert "dlx redrive amqp://USER:PASSWORD@HOST/%2F orders.dead --to orders.dead.moving --own-keys" in out
    assert "received 'quorum' but current is 'classic'" in " ".join(out.split())
    assert main(["plan", old, new, "--script"]) == 1
    script = capsys.readouterr().out.splitlines()
    assert script[:2] == ["set -e", "# 1. declare for the time being: exchange 'orders.dead.moving', queue "
                          "'orders.dead.moving', 1 binding"]  # fmt: skip
    assert sum(not line.startswith("#") for line in script) == 10
    assert out.index("lost: ") < out.index("1. declare") < out.index("Changes") < out.index("Assumed: ")
    assert main(["plan", *files(OLD, QUORUM)]) == 0
    heeded = " ".join(capsys.readouterr().out.split())
    assert heeded.startswith(
        "Nothing is lost, if you see to this: risk: in step 3: stop the consumers of 'orders' first"
    )


def test_equal_changes_are_told_once(files: Any, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    old, new = ({"queues": [queue(f"q{n}", **given) for n in range(6)]} for given in ({}, {"max_length": 900}))
    main(["plan", *files(old, new)])
    out = " ".join(capsys.readouterr().out.split())
    named = "6 queues: 'q0', 'q1', 'q2', 'q3' and 2 more"
    assert f"{named}: changed: x-max-length none → 9" in out
    assert f"{named}: 406 PRECONDITION_FAILED - inequivalent arg 'x-max-length' for … in vhost '/'" in out
    assert "declare again: 6 queues 'q0', 'q1', 'q2', 'q3' and 2 more" in out


def test_a_server_says_how_many_messages_and_consumers_a_queue_has(files: Any, capsys: Capture) -> None:
    old, new = files(OLD, QUORUM)
    with (
        serve("4.3", definitions=old, management_port=0) as server,
        pika.BlockingConnection(pika.URLParameters(server.amqp_url)) as connection,
    ):
        channel = connection.channel()
        channel.confirm_delivery()
        for _ in range(3):
            channel.basic_publish("shop", "paid", b"")
        channel.basic_consume("orders", lambda *_: None)
        _, found = answer(capsys, str(server.management_url), new)
    assert [(each["object"], each["messages"], each["consumers"]) for each in found["deletions"]] == [("orders", 3, 1)]
    port = urlsplit(server.amqp_url).port
    assert any("some seconds old" in each for each in found["assumed"])
    moves = [act["command"] for step in found["steps"] for act in step["acts"] if "move" in act]
    assert all(f"PASSWORD@127.0.0.1:{port}/" in each for each in moves)


def test_the_export_of_one_virtual_host_is_for_the_one_of_the_other(
    tmp_path: Path, files: Any, capsys: Capture
) -> None:
    (old,) = files(OLD)
    single = tmp_path / "single.json"
    single.write_text(json.dumps(OLD), encoding="utf-8")
    assert answer(capsys, old, str(single))[1]["changes"] == []
    one, short = tmp_path / "one.json", tmp_path / "short.json"
    one.write_text(json.dumps(OLD | {"original_vhost_name": "of shop"}), encoding="utf-8")
    short.write_text(json.dumps(OLD | {"queues": [queue("orders", max_length=3), DEAD]}), encoding="utf-8")
    assert [each["code"] for each in answer(capsys, str(one), str(short))[1]["new_errors"]] == ["DLX002"]
    document = json.loads(Path(old).read_text(encoding="utf-8"))
    document["vhosts"].append({"name": "other"})
    Path(old).write_text(json.dumps(document), encoding="utf-8")
    assert main(["plan", old, str(single)]) == 65
    assert "single.json: original_vhost_name: missing; expected the virtual host of" in capsys.readouterr().err


def test_what_a_new_file_does_not_mention_can_stay(tmp_path: Path, capsys: Capture) -> None:
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    old.write_text(json.dumps(OLD), encoding="utf-8")
    new.write_text(json.dumps({"queues": QUORUM["queues"][:1]}), encoding="utf-8")
    _, found = answer(capsys, str(old), str(new), "--keep")
    assert [(each["what"], each["object"]) for each in found["changes"]] == [("changed", "orders")]
    _, found = answer(capsys, str(old), str(new))
    assert ("removed", "orders.dead") in [(each["what"], each["object"]) for each in found["changes"]]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--messages", "orders"], "expected QUEUE=N"),
        (["--messages", "order=1"], "no queue 'order'; did you mean 'orders'"),
        (["--move", "orders="], "expected OLD=NEW"),
        (["--move", "orders=orders"], "cannot move into itself"),
    ],
)
def test_wrong_usage_says_what_is_right(options: list[str], problem: str, files: Any, capsys: Capture) -> None:
    assert main(["plan", *files(OLD, QUORUM), *options]) == 64
    assert problem in capsys.readouterr().err


def test_what_no_server_of_the_release_takes_is_bad_data(files: Any, capsys: Capture) -> None:
    old, new = files(OLD, OLD | {"queues": [ORDERS, DEAD, queue("q", overflow="no-such")]})
    assert main(["plan", old, new]) == 65
    assert "a server of RabbitMQ 4.3 refuses this" in capsys.readouterr().err
    assert main(["plan", *files(OLD, QUORUM), "--move", "orders=orders.dead"]) == 65
    assert "queue 'orders' is not removed" in capsys.readouterr().err


def test_a_binding_is_named_without_quotes_in_quotes(files: Any, capsys: Capture) -> None:
    main(["plan", *files(OLD, OLD | {"bindings": [*OLD["bindings"], bound("dlx", "orders", "other")]})])
    assert "binding dlx → orders by 'other': added" in capsys.readouterr().out


def test_an_empty_topology_is_no_plan_to_remove_everything(files: Any, tmp_path: Path, capsys: Capture) -> None:
    empty = tmp_path / "empty.json"
    empty.write_text(json.dumps({"format_version": "1.0"}), encoding="utf-8")
    (old,) = files(OLD)
    assert main(["plan", old, str(empty)]) == 65
    assert "nothing in it" in capsys.readouterr().err


def test_a_queue_without_a_type_has_the_one_that_its_virtual_host_has_on_the_server(
    tmp_path: Path, capsys: Capture
) -> None:
    server, new = tmp_path / "server.json", tmp_path / "app.yaml"
    host = {"name": "/", "metadata": {"default_queue_type": "quorum"}}
    orders = {"name": "orders", "vhost": "/", "durable": True, "arguments": {"x-queue-type": "quorum"}}
    server.write_text(json.dumps({"rabbit_version": "4.3.0", "vhosts": [host], "queues": [orders]}), encoding="utf-8")
    new.write_text(
        "apiVersion: rabbitmq.com/v1beta1\nkind: Queue\nmetadata: {name: orders}\n"
        "spec: {name: orders, rabbitmqClusterReference: {name: one}}\n",
        encoding="utf-8",
    )
    for more in ((), ("--keep",)):
        assert answer(capsys, str(server), str(new), *more)[1]["changes"] == []


def test_messages_that_stay_in_one_virtual_host_are_told_beside_another(tmp_path: Path, capsys: Capture) -> None:
    def written(name: str, **lengths: int) -> str:
        limited = [
            {"name": "orders", "vhost": vhost, "durable": True,
             "arguments": {"x-overflow": "reject-publish", "x-max-length": length} if name == "new" else {}}
            for vhost, length in lengths.items()
        ]  # fmt: skip
        document = {"rabbit_version": "4.3.0", "vhosts": [{"name": each} for each in lengths], "queues": limited}
        path = tmp_path / f"{name}-{len(lengths)}.json"
        path.write_text(json.dumps(document), encoding="utf-8")
        return str(path)

    for lengths in ({"a": 3}, {"a": 3, "b": 300}):
        status, found = answer(capsys, written("old", **lengths), written("new", **lengths), "--publishers-stopped")
        assert status == 1
        assert found["lost"]


def test_a_script_has_no_command_from_a_name_and_waits_for_an_empty_queue(files: Any, capsys: Capture) -> None:
    old, new = files(QUORUM, OLD | {"queues": [*OLD["queues"], queue("a\ntouch here\n")]})
    assert main(["plan", old, new, "--script", "--messages", "orders=3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "touch here" not in lines
    waiting = [each for each in lines if each.startswith("until [ ")]
    assert waiting
    assert all(each.endswith("""= '{"messages":0}' ]; do sleep 2; done""") for each in waiting)


def test_standard_input_is_one_of_both(capsys: Capture) -> None:
    assert main(["plan", "-", "-"]) == 64
    assert "both standard input" in capsys.readouterr().err
