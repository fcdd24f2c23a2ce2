"""Definitions: real exports of four releases, read and written back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dlx.topology import Binding, Policy, Topology
from simulator.definitions import (
    DefinitionsError,
    parse_definitions,
    read_definitions,
    write_definitions,
)
from tests.capture.sample_logs import RELEASES, SAMPLES

BINDING = {"source": "a", "destination": "b", "destination_type": "queue", "routing_key": "k", "arguments": {}}
FORMS = ("ctl", "http", "vhost")


def exported(form: str, release: str) -> Path:
    return SAMPLES / f"definitions-{form}-{release}.json"


def parse(document: Any) -> Any:
    return parse_definitions(json.dumps(document).encode(), "definitions.json")


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("form", FORMS)
def test_real_exports_are_understood_alike(form: str, release: str) -> None:
    definitions = read_definitions(exported(form, release))
    topology = definitions.topology("samples")
    assert (definitions.rabbitmq_version or "").startswith(release)
    assert {name: queue.type for name, queue in topology.queues.items()} == {
        "work": "classic",
        "dead": "classic",
        "graveyard": "classic",
        'Wörk "q"': "classic",
        "limited": "quorum",
    }
    assert topology.queues["work"].arguments["x-dead-letter-exchange"] == "dlx"
    assert topology.policies == (
        Policy(name="ttl", pattern="^dead$", definition={"message-ttl": 60000}, apply_to="queues", priority=2),
    )
    assert topology.operator_policies == (
        Policy(name="cap", pattern="^work", definition={"max-length": 5}, apply_to="queues", priority=1),
    )
    assert topology.exchanges["dlx"].type == "fanout"
    assert topology.exchanges["amq.direct"].type == "direct"
    assert [binding.destination for binding in topology.bindings["dlx"]] == ["dead"]
    if (form, release) != ("ctl", "3.8"):  # it loses the arguments of bindings
        assert topology.bindings["amq.headers"] == (
            Binding(
                source="amq.headers",
                destination="work",
                routing_key="k",
                arguments={"x-match": "all", "void": None},
            ),
        )


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("form", FORMS)
def test_writing_loses_nothing(form: str, release: str, tmp_path: Path) -> None:
    definitions = read_definitions(exported(form, release))
    written = tmp_path / "written.json"
    write_definitions(definitions, written)
    assert json.loads(written.read_bytes()) == json.loads(exported(form, release).read_bytes())
    assert [path.name for path in tmp_path.iterdir()] == ["written.json"]


@pytest.mark.parametrize("release", RELEASES)
def test_one_virtual_host_can_be_written_alone(release: str, tmp_path: Path) -> None:
    """As the server exports it itself, apart from what only one of its exports says."""
    definitions = read_definitions(exported("http", release))
    assert sorted(definitions.vhosts) == ["/", "samples"]
    write_definitions(definitions, tmp_path / "one.json", "samples")
    alone = read_definitions(tmp_path / "one.json")
    assert (alone.vhosts, alone.vhost_named, alone.single_vhost) == (("samples",), True, True)
    assert alone.topology("samples") == definitions.topology("samples")
    ours, theirs = (json.loads(path.read_bytes()) for path in (tmp_path / "one.json", exported("vhost", release)))
    for section in ("queues", "exchanges", "bindings", "policies", "parameters"):
        # RabbitMQ 3 leaves the name of the virtual host in policies and parameters
        nameless = [{key: value for key, value in item.items() if key != "vhost"} for item in theirs[section]]
        assert sorted(ours[section], key=json.dumps) == sorted(nameless, key=json.dumps)
    assert "users" not in ours
    assert "permissions" not in ours


@pytest.mark.parametrize("release", RELEASES)
def test_an_export_of_one_virtual_host_says_which(release: str) -> None:
    """RabbitMQ 3 says so only in its policies and parameters."""
    definitions = read_definitions(exported("vhost", release))
    assert (definitions.vhosts, definitions.single_vhost) == (("samples",), True)
    with pytest.raises(DefinitionsError, match="no virtual host 'other'; there are 'samples'"):
        definitions.topology("other")


@pytest.mark.parametrize("release", ["3.8", "3.10"])
def test_an_export_of_one_virtual_host_without_policies_does_not_say_which(release: str, tmp_path: Path) -> None:
    document = json.loads(exported("vhost", release).read_bytes())
    nameless = tmp_path / "nameless.json"
    nameless.write_text(json.dumps({**document, "policies": [], "parameters": []}))
    definitions = read_definitions(nameless)
    assert (definitions.vhosts, definitions.vhost_named) == (("/",), False)
    assert definitions.topology("any") == definitions.topology("/")
    given = read_definitions(nameless, vhost="mine")
    assert (given.vhosts, given.vhost_named) == (("mine",), True)


def test_internal_exchanges_are_read_where_they_are_exported() -> None:
    assert read_definitions(exported("http", "3.10")).topology("samples").exchanges["hidden"].internal
    assert "hidden" not in read_definitions(exported("ctl", "3.10")).topology("samples").exchanges


@pytest.mark.parametrize(
    ("queue", "vhost", "expected"),
    [
        ({"type": "stream"}, {}, "classic"),
        ({"type": "stream"}, {"metadata": {"default_queue_type": "quorum"}}, "quorum"),
        ({"type": "quorum", "arguments": {"x-queue-type": "classic"}}, {}, "classic"),
        ({"arguments": {"x-queue-type": "quorum"}}, {"metadata": {"default_queue_type": "stream"}}, "quorum"),
        ({}, {"default_queue_type": "quorum"}, "classic"),
        ({}, {"metadata": {"default_queue_type": "rabbit_quorum_queue"}}, "quorum"),
        ({}, {"metadata": {"default_queue_type": "quorum"}}, "quorum"),
        ({}, {"metadata": {"default_queue_type": "undefined"}}, "classic"),
        ({}, {}, "classic"),
    ],
)
def test_a_queue_type_comes_from_where_the_server_takes_it(queue: Any, vhost: Any, expected: str) -> None:
    document = {"vhosts": [{"name": "v", **vhost}], "queues": [{"name": "q", "vhost": "v", **queue}]}
    assert parse(document).topology("v").queues["q"].type == expected
    alone = {"rabbitmq_definition_format": "single_virtual_host", **vhost, "queues": [{"name": "q", **queue}]}
    assert parse(alone).topology("/").queues["q"].type == expected


def test_a_binding_without_a_routing_key_has_the_key_that_servers_give_it() -> None:
    keyless = {name: value for name, value in BINDING.items() if name != "routing_key"}
    (binding,) = parse({"bindings": [keyless]}).topology("/").bindings["a"]
    assert binding.routing_key == "undefined"


def test_a_priority_may_lie_between_two_others() -> None:
    """RabbitMQ takes any number."""
    policy = {"vhost": "/", "name": "one", "pattern": "", "definition": {}}
    policies = [{**policy, "priority": 1}, {**policy, "name": "other", "priority": 1.5}]
    document = {"policies": policies, "vhosts": [{"name": "/"}]}
    found = parse_definitions(json.dumps(document).encode(), "definitions.json")
    assert [each.priority for each in found.topology("/").policies] == [1, 1.5]


def test_an_empty_virtual_host_has_what_every_one_has() -> None:
    definitions = parse({"vhosts": [{"name": "empty", "limits": []}], "queues": []})
    assert definitions.topology("empty") == Topology.of()


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "not a definitions export: expected an object, got []"),
        ({"hello": 1}, "not a definitions export: it has none of queues, exchanges"),
        ({"queues": 5}, "queues: expected a list, got 5"),
        ({"queues": [], "policies": 5}, "policies: expected a list, got 5"),
        ({"queues": [5]}, "queues[0]: expected an object, got 5"),
        ({"queues": [{"name": 5}]}, "queues[0].name: expected a string, got 5"),
        (
            {"vhosts": [], "queues": [{"name": "q"}]},
            "queues[0].vhost: missing; expected a string, the name of its virtual host "
            "(only an export of one virtual host goes without, and it has no `vhosts`)",
        ),
        (
            {"queues": [{"name": "q", "durable": "yes"}]},
            'queues[0].durable: expected true or false, got "yes"',
        ),
        ({"queues": [{"name": "q", "arguments": [1]}]}, "queues[0].arguments: expected an object, got [1]"),
        (
            {"queues": [{"name": "q", "arguments": {"x-queue-type": 1}}]},
            "queues[0].arguments.x-queue-type: expected a string, got 1",
        ),
        (
            {"queues": [{"name": "p"}, {"name": "q", "arguments": {"x-dead-letter-exchange": None}}]},
            "queues[1].arguments.x-dead-letter-exchange: expected a value, got null; leave out what has none",
        ),
        (
            {"bindings": [BINDING | {"arguments": {"x": [1, {"y": None}]}}]},
            "bindings[0].arguments.x[1].y: expected a value, got null",
        ),
        (
            {"exchanges": [{"name": "e", "arguments": {"x": 2**63}}]},
            "exchanges[0].arguments.x: expected an integer of 64 bits, got 9223372036854775808",
        ),
        (
            {"bindings": [{"source": "a", "destination": "b", "destination_type": "c"}]},
            "bindings[0].destination_type: expected queue or exchange, got 'c'",
        ),
        ({"policies": [{"name": "p"}]}, "policies[0].pattern: missing; expected a string"),
        (
            {"policies": [{"name": "p", "pattern": "", "definition": {}, "priority": True}]},
            "policies[0].priority: expected a number, got true",
        ),
        (
            {"parameters": [{"component": "operator_policy", "name": "o", "value": {"pattern": ""}}]},
            "parameters[0].value.definition: missing; expected an object",
        ),
        (
            {"policies": [{"name": "p", "pattern": "", "definition": [["a"]]}]},
            "policies[0].definition: expected an object or a list of [key, value] pairs",
        ),
        (
            {"bindings": [{name: value for name, value in BINDING.items() if name != "destination_type"}]},
            "bindings[0].destination_type: missing; expected queue or exchange",
        ),
        ({"queues": [], "original_vhost_name": 1}, "original_vhost_name: expected a string, got 1"),
        (
            {"vhosts": [{"name": "v", "metadata": {"default_queue_type": 1}}]},
            "vhosts[0].metadata.default_queue_type: expected a string",
        ),
    ],
)
def test_an_error_names_the_file_the_field_and_what_would_be_right(document: Any, message: str) -> None:
    with pytest.raises(DefinitionsError) as caught:
        parse(document)
    assert str(caught.value).startswith(f"definitions.json: {message}")


@pytest.mark.parametrize(
    ("data", "place"),
    [(b'{"queues": [\n  {"name": x}\n]}', "line 2, column 12"), (b'{"queues": [\n', "line 1, column 13")],
)
def test_what_is_not_json_is_placed(data: bytes, place: str) -> None:
    with pytest.raises(DefinitionsError) as caught:
        parse_definitions(data, "definitions.json")
    assert str(caught.value).startswith(f"definitions.json: {place}: not JSON: ")


@pytest.mark.parametrize("data", [b"[" * 100_000, b'{"queues": ' + b"[" * 150 + b"]" * 150 + b"}"])
def test_what_is_nested_too_deeply_is_refused(data: bytes) -> None:
    with pytest.raises(DefinitionsError, match=r"definitions\.json: .*nested too deeply"):
        parse_definitions(data, "definitions.json")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DefinitionsError, match=r"none\.json: No such file or directory"):
        read_definitions(tmp_path / "none.json")
