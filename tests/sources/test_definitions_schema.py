"""The JSON Schema of definitions: what servers take is valid, and what lint calls misspelt is not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from dlx.declarations import ARGUMENTS
from simulator.cli.main import main
from simulator.definitions import Definitions, DefinitionsError, read_definitions
from simulator.definitions.checks import policy_keys
from simulator.definitions.reading import SECTIONS
from simulator.definitions.schema import OBJECT_FIELDS, SETTING_TEXTS

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((ROOT / "docs/reference/definitions.schema.json").read_text(encoding="utf-8"))
VALIDATOR = Draft202012Validator(SCHEMA)
Capture = pytest.CaptureFixture[str]
INVALID = {
    "tests/analysis/lint_examples/misspelt-name.json": {"x-dead-leter-exchange", "x-alternate-exchange", "binding"},
    # Servers ignore these, and they are like nothing that servers know: lint says nothing, and an editor shows them.
    "tests/analysis/lint_examples/misspelt-name.near.json": {"x-message-owner", "notes"},
}
"""The definitions of the repository that are not valid, with what is wrong in each."""


def definitions() -> list[Path]:
    found = []
    for folder in ("examples", "tests", "docs", "benchmarks", "notebooks"):
        for path in sorted((ROOT / folder).rglob("*.json")):
            try:
                read_definitions(path)
            except DefinitionsError:
                continue
            found.append(path)
    return found


def test_there_are_many_definitions_to_validate() -> None:
    assert len(definitions()) > 100


@pytest.mark.parametrize("path", definitions(), ids=lambda path: str(path.relative_to(ROOT)))
def test_definitions_of_the_repository_are_valid(path: Path) -> None:
    wrong = [str(each.message) for each in VALIDATOR.iter_errors(read_definitions(path).document)]
    names = INVALID.get(str(path.relative_to(ROOT)), set())
    assert len(wrong) == len(names), wrong
    assert all(any(name in each for each in wrong) for name in names)


QUEUE = {"name": "orders", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}}
EXCHANGE = {"name": "e", "vhost": "/", "type": "direct", "durable": True, "auto_delete": False, "internal": False}
POLICY = {
    "name": "p",
    "vhost": "/",
    "pattern": ".*",
    "apply-to": "queues",
    "definition": {"max-length": 1},
    "priority": 0,
}


def a_file(**sections: Any) -> dict[str, Any]:
    return {"vhosts": [{"name": "/"}], "queues": [QUEUE], **sections}


def misspelt(section: str, item: dict[str, Any], name: str, wrong: str) -> dict[str, Any]:
    return a_file(**{section: [{wrong if key == name else key: value for key, value in item.items()}]})


MISSPELT = [
    misspelt("queues", QUEUE, "durable", "durabel"),
    misspelt("queues", QUEUE, "arguments", "argumens"),
    misspelt("exchanges", EXCHANGE, "internal", "interal"),
    misspelt("policies", POLICY, "priority", "priorty"),
    misspelt("policies", {**POLICY, "apply-to": "all"}, "apply-to", "apply_to"),
    a_file(queus=[]),
    a_file(queues=[{**QUEUE, "arguments": {"x-mesage-ttl": 1}}]),
    a_file(queues=[{**QUEUE, "arguments": {"message-ttl": 1}}]),
    a_file(queues=[{**QUEUE, "arguments": {"x-max-retries": 3}}]),
    a_file(exchanges=[{**EXCHANGE, "arguments": {"alternate_exchange": "rest"}}]),
]


@pytest.mark.parametrize("document", MISSPELT)
def test_what_lint_calls_misspelt_is_invalid(document: dict[str, Any], tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "definitions.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    main(["lint", str(path), "--format", "json", "--select", "DLX029"])
    assert json.loads(capsys.readouterr().out)["findings"]
    assert not VALIDATOR.is_valid(document)


@pytest.mark.parametrize(
    "document",
    [
        a_file(queues=[{**QUEUE, "arguments": {"x-message-ttl": "1"}}]),
        a_file(queues=[{**QUEUE, "arguments": {"x-message-ttl": -1}}]),
        a_file(queues=[{**QUEUE, "arguments": {"x-expires": 0}}]),
        a_file(policies=[{**POLICY, "definition": {"max-length": -1}}]),
        a_file(queues=[{**QUEUE, "arguments": {"x-overflow": "drop-tail"}}]),
        a_file(queues=[{**QUEUE, "arguments": {"x-queue-type": "quorom"}}]),
        a_file(policies=[{**POLICY, "apply-to": "queue"}]),
        a_file(policies=[{**POLICY, "definition": {"max-lenght": 1}}]),
        a_file(policies=[{**POLICY, "definition": {"delivery-limit": "3"}}]),
        a_file(
            parameters=[
                {"component": "operator_policy", "vhost": "/", "name": "p", "value": {"pattern": ".*", "defn": {}}}
            ]
        ),
    ],
)
def test_what_servers_refuse_in_a_field_is_invalid(document: dict[str, Any], tmp_path: Path, capsys: Capture) -> None:
    assert not VALIDATOR.is_valid(document)
    path = tmp_path / "definitions.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    assert main(["lint", str(path)]) != 0
    capsys.readouterr()


@pytest.mark.parametrize(
    "item",
    [
        {**POLICY, "definition": {"ha-mode": "all"}},
        {**POLICY, "definition": {"ha-mode": "nodes", "ha-params": ["a"]}},
        {**POLICY, "definition": {"ha-mode": "exactly", "ha-params": 2, "ha-sync-mode": "automatic"}},
        {**POLICY, "definition": {"delayed-retry-type": "returned", "delayed-retry-min": 1}},
        {**POLICY, "definition": {"overflow": "reject-publish-dlx", "delivery-limit": -1}},
        {**POLICY, "definition": {"federation-upstream-set": "all"}},
    ],
)
def test_what_some_release_takes_of_a_policy_is_valid(item: dict[str, Any]) -> None:
    assert VALIDATOR.is_valid(a_file(policies=[item]))


def test_the_fields_are_those_that_are_read() -> None:
    """A value of the wrong type in a field of a queue, an exchange, a binding or a policy is an error of the reader."""
    items: dict[str, dict[str, Any]] = {
        "queues": {**QUEUE, "type": "classic"},
        "exchanges": {**EXCHANGE, "arguments": {}},
        "bindings": {"source": "e", "vhost": "/", "destination": "q", "destination_type": "queue", "routing_key": ""}
        | {"arguments": {}},
        "policies": POLICY,
    }
    for section, item in items.items():
        assert set(OBJECT_FIELDS[section]) - {"properties_key"} == set(item)
        assert VALIDATOR.is_valid({section: [item]})
        Definitions({"vhosts": [], section: [item]}, "")
        for name in item:
            document = {"vhosts": [], section: [{**item, name: {"not": "this"}}]}
            if name not in ("arguments", "definition"):
                assert not VALIDATOR.is_valid(document), name
                with pytest.raises(DefinitionsError):
                    Definitions(document, "")


def test_everything_has_a_description() -> None:
    assert set(OBJECT_FIELDS) == SECTIONS
    assert {name.removeprefix("x-") for name in ARGUMENTS} | policy_keys() == set(SETTING_TEXTS)
    Draft202012Validator.check_schema(SCHEMA)
    pending: list[Any] = [SCHEMA]
    while pending:
        each = pending.pop()
        for name, field in each.get("properties", {}).items() if isinstance(each, dict) else ():
            assert name in ("component", "value") or field.get("description"), name
        pending += each.values() if isinstance(each, dict) else each if isinstance(each, list) else ()


def test_lint_prints_the_schema(capsys: Capture) -> None:
    assert main(["lint", "--schema"]) == 0
    assert json.loads(capsys.readouterr().out) == SCHEMA
