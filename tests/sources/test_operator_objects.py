"""``dlx convert --to``: definitions as objects of the topology operator, and back again."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from simulator.cli.main import main
from simulator.definitions import Definitions, DefinitionsError, parse_definitions, read_definitions
from simulator.sources import definitions_from_file, definitions_from_text
from simulator.sources.operator_objects import operator_objects

ROOT = Path(__file__).parents[2]
OPERATOR = Path(__file__).parent / "topology"
TOPOLOGIES = sorted((ROOT / "examples").rglob("*.json")) + sorted((ROOT / "tests/analysis").rglob("*.json"))
Capture = pytest.CaptureFixture[str]


def exports() -> list[Path]:
    found = []
    for path in TOPOLOGIES:
        try:
            read = read_definitions(path)
        except DefinitionsError:
            continue
        if any(read.topology(vhost).queues for vhost in read.vhosts):
            found.append(path)
    return found


def again(definitions: Definitions) -> Definitions:
    text = operator_objects(definitions).text.replace("CLUSTER", "rabbit")
    return definitions_from_text(text.encode(), "objects.yaml")


def parts(definitions: Definitions) -> dict[str, Any]:
    """What each virtual host has, in no order; exchanges are not internal, which a remark says."""
    found = {}
    for vhost in definitions.vhosts:
        topology = definitions.topology(vhost)
        bindings = {
            (each.source, each.destination, each.destination_type, each.routing_key, repr(dict(each.arguments)))
            for bound in topology.bindings.values()
            for each in bound
        }
        if topology.queues or topology.exchanges or topology.policies or vhost != "/":
            exchanges = [msgspec.structs.replace(each, internal=False) for each in topology.exchanges.values()]
            found[vhost] = (topology.queues, exchanges, topology.policies, bindings)
    return found


@pytest.mark.parametrize("path", exports(), ids=lambda path: str(path.relative_to(ROOT)))
def test_an_export_is_the_same_topology_when_it_comes_back(path: Path) -> None:
    definitions = read_definitions(path)
    written = operator_objects(definitions)
    assert not [each for each in written.remarks if "queue" in each.lower() and "left out" in each]
    assert parts(again(definitions)) == parts(definitions)
    internal = [each for vhost in definitions.vhosts for each in definitions.topology(vhost).exchanges.values()]
    said = [each for each in written.remarks if "no internal exchanges" in each]
    assert len(said) == sum(each.internal and not each.name.startswith("amq.") for each in internal)


def test_the_operators_objects_are_the_same_when_they_come_back() -> None:
    read = definitions_from_file(OPERATOR)
    back = again(read)
    assert parts(back) == parts(read)

    def parameters(given: Definitions) -> list[dict[str, Any]]:
        return sorted(given.document["parameters"], key=lambda each: str(each["component"]))

    assert parameters(back) == parameters(read)
    for section in ("permissions", "topic_permissions", "vhosts"):
        assert back.document[section] == read.document[section]
    assert back.document["users"][0]["tags"] == read.document["users"][0]["tags"]


def of(**sections: Any) -> Definitions:
    document = {"vhosts": [{"name": "/"}], **sections}
    return parse_definitions(json.dumps(document).encode(), "given.json")


QUEUE = {"name": "q", "vhost": "/", "durable": True, "auto_delete": False}


@pytest.mark.parametrize(
    ("sections", "said"),
    [
        ({"queues": [{**QUEUE, "exclusive": True}]}, "Queue 'q' in virtual host '/' is exclusive"),
        (
            {"queues": [{**QUEUE, "arguments": {"x-a": {"b": [5.0]}}}]},
            "of x-a.b[0], 5.0, the operator makes the integer 5",
        ),
        (
            {"queues": [{**QUEUE, "arguments": {"x-a": 2**60}}]},
            f"of x-a, {2**60}, the operator keeps the first 53 bits",
        ),
        ({"exchanges": [{"name": "e", "vhost": "/", "internal": True}]}, "the operator has no internal exchanges"),
        (
            {"policies": [{"name": "p", "vhost": "/", "pattern": "", "definition": {}, "apply-to": "streams2"}]},
            "the operator takes no apply-to 'streams2': left out",
        ),
        ({"vhosts": [{"name": "v", "metadata": {"description": "d"}}]}, "the operator has no description: left out"),
        (
            {"users": [{"name": "u", "tags": "management,impersonator"}]},
            "the operator has no tags impersonator: left out",
        ),
        ({"users": [{"name": "u", "tags": []}]}, "make the secret 'u-credentials' with username and password"),
        (
            {"global_parameters": [{"name": "cluster_name", "value": "c"}]},
            "no global parameters: cluster_name left out",
        ),
        (
            {"parameters": [{"component": "federation-upstream-set", "vhost": "/", "name": "all", "value": []}]},
            "the operator has no parameters of federation-upstream-set: 'all' in '/' left out",
        ),
        (
            {
                "parameters": [
                    {"component": "shovel", "vhost": "/", "name": "s", "value": {"src-uri": "a", "colour": 1}}
                ]
            },
            "the operator has no field for colour: left out",
        ),
    ],
)
def test_what_the_operator_has_no_field_for_is_said(sections: dict[str, Any], said: str) -> None:
    assert said in "\n".join(operator_objects(of(**sections)).remarks)


def test_no_uri_and_no_password_is_written() -> None:
    uris = {"src-uri": "amqp://u:secret@here", "dest-uri": ["amqp://u:secret@there"], "src-queue": "q"}
    shovel = {"component": "shovel", "vhost": "/", "name": "s", "value": uris}
    written = operator_objects(of(parameters=[shovel], users=[{"name": "u", "password_hash": "secret", "tags": []}]))
    assert "secret" not in written.text.replace("importCredentialsSecret", "").replace("uriSecret", "")
    assert "make the secret 's-uris': src-uri and dest-uri belong there" in "\n".join(written.remarks)


def test_names_in_kubernetes_are_ones_that_it_takes_and_unique() -> None:
    names = ["Orders_1", "orders.1", "orders-1", "été", "--", "x\u2028y\x7f"]
    written = operator_objects(of(queues=[{**QUEUE, "name": name} for name in names])).text
    objects = list(yaml.safe_load_all(written))
    assert [each["spec"]["name"] for each in objects] == names
    assert [each["metadata"]["name"] for each in objects] == [
        "orders-1",
        "orders-1-2",
        "orders-1-3",
        "t",
        "queue",
        "x-y",
    ]


def test_the_default_virtual_host_is_never_deleted_with_its_object() -> None:
    written = operator_objects(of(vhosts=[{"name": "/", "metadata": {"default_queue_type": "quorum"}}]))
    (vhost,) = yaml.safe_load_all(written.text)
    assert vhost["spec"]["deletionPolicy"] == "retain"
    assert not operator_objects(of()).text


# The command.


def test_convert_writes_objects_and_notes(tmp_path: Path, capsys: Capture) -> None:
    source = ROOT / "examples/topologies/sound/three-delays-and-parking.json"
    out = tmp_path / "topology.yaml"
    assert main(["convert", str(source), "--to", "operator-yaml", "--out", str(out)]) == 0
    said, noted = capsys.readouterr()
    assert not said
    assert "note: rabbitmqClusterReference: put the name of your cluster for CLUSTER" in noted
    assert main(["convert", str(out), "--to", "definitions"]) == 0
    back = parse_definitions(capsys.readouterr().out.encode(), "back.json")
    assert parts(back) == parts(read_definitions(source))


def test_convert_reads_standard_input_and_folders(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(["convert", "--to", "definitions", str(OPERATOR)]) == 0
    written = capsys.readouterr().out
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(written.encode())))
    assert main(["convert", "-", "--to", "operator-yaml"]) == 0
    assert "kind: SuperStream" not in capsys.readouterr().out  # its exchange, queues and bindings are


def test_convert_redacts_definitions(tmp_path: Path, capsys: Capture) -> None:
    given = tmp_path / "definitions.json"
    user = {"name": "u", "password_hash": "AAAA", "hashing_algorithm": "rabbit_password_hashing_sha256", "tags": []}
    given.write_text(json.dumps({"vhosts": [{"name": "/"}], "users": [user]}), encoding="utf-8")
    assert main(["convert", str(given), "--to", "definitions"]) == 0
    assert "AAAA" in capsys.readouterr().out
    assert main(["convert", str(given), "--to", "definitions", "--redact"]) == 0
    assert "AAAA" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("asked", "code", "said"),
    [
        (["a.json", "b.json", "--to", "definitions"], 64, "--to: expected one SOURCE"),
        (["missing.json", "--to", "definitions"], 65, "missing.json: No such file"),
        (["missing.log"], 64, "Missing option '--out'"),
        (["amqp://localhost", "--to", "definitions"], 64, "amqp is not the scheme of a management API"),
    ],
)
def test_convert_says_what_it_needs(
    asked: list[str], code: int, said: str, capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["convert", *asked]) == code
    assert said in capsys.readouterr().err


def test_a_file_that_cannot_be_written_is_said(tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "nowhere" / "topology.yaml"
    assert main(["convert", str(OPERATOR), "--to", "operator-yaml", "--out", str(out)]) == 65
    assert f"{out}: cannot be written: there is no folder {out.parent}" in capsys.readouterr().err
