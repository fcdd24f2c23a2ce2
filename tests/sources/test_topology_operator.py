"""Objects of the messaging topology operator, from files made by hand that have every field."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from dlx.releases import release
from simulator.analysis.lint.linting import lint
from simulator.analysis.upgrade.report import upgraded
from simulator.cli.main import main
from simulator.definitions import Definitions
from simulator.sources import definitions_from_file, definitions_from_text
from simulator.sources.operator_fields import SPECS
from tests.sources.reading import failing, named, parsed, paths

FOLDER = Path(__file__).parent / "topology"
Capture = pytest.CaptureFixture[str]
CLUSTER = "  rabbitmqClusterReference: {name: rabbit}\n"

# The fields of the custom resource definitions of release 1.20.
FIELDS = {
    "Queue": "arguments autoDelete deleteIfEmpty deleteIfUnused deletionPolicy durable name type vhost",
    "Exchange": "arguments autoDelete durable name type vhost",
    "Binding": "arguments destination destinationType routingKey source vhost",
    "Policy": "applyTo definition name pattern priority vhost",
    "OperatorPolicy": "applyTo definition name pattern priority vhost",
    "Vhost": "defaultQueueType deletionPolicy limits.connections limits.queues name tags tracing",
    "User": "importCredentialsSecret.name limits.channels limits.connections tags",
    "Permission": "permissions.configure permissions.read permissions.write user userReference.name vhost",
    "TopicPermission": "permissions.exchange permissions.read permissions.write user userReference.name vhost",
    "Shovel": "ackMode addForwardHeaders deleteAfter deletionPolicy destAddForwardHeaders destAddTimestampHeader "
    "destAddress destApplicationProperties destExchange destExchangeKey destMessageAnnotations destProperties "
    "destProtocol destPublishProperties destQueue destQueueArgs name prefetchCount reconnectDelay srcAddress "
    "srcConsumerArgs srcDeleteAfter srcExchange srcExchangeKey srcPrefetchCount srcProtocol srcQueue srcQueueArgs "
    "uriSecret.name vhost",
    "Federation": "ackMode deletionPolicy exchange expires maxHops messageTTL name prefetch-count queue queueType "
    "reconnectDelay resourceCleanupMode trustUserId uriSecret.name vhost",
    "SuperStream": "name partitions routingKeys vhost",
}
REFERENCE = {f"rabbitmqClusterReference.{name}" for name in ("name", "namespace", "connectionSecret.name")}
# One excludes the other.
ALTERNATIVES = {"rabbitmqClusterReference.connectionSecret.name", "user", "userReference.name"}


def given_objects() -> Iterator[dict[str, Any]]:
    for file in sorted(FOLDER.iterdir()):
        for document in yaml.safe_load_all(file.read_text(encoding="utf-8")):
            yield from (document or {}).get("items", [document] if document else [])


@pytest.mark.parametrize("kind", SPECS)
def test_every_field_of_the_schema_is_known_and_in_the_files(kind: str) -> None:
    assert set(paths(SPECS[kind], SPECS[kind])) == {*FIELDS[kind].split(), *REFERENCE}
    written = {path for each in given_objects() if each["kind"] == kind for path in paths(each["spec"], SPECS[kind])}
    assert written | ALTERNATIVES >= {*FIELDS[kind].split(), *REFERENCE}


@pytest.fixture(scope="module")
def read() -> Definitions:
    return definitions_from_file(FOLDER)


def items(definitions: Definitions, section: str) -> list[dict[str, Any]]:
    return list(definitions.document[section])


def an_object(kind: str, spec: str, version: str = "v1beta1", name: str = "one") -> str:
    lines = "".join(f"  {line}\n" for line in spec.splitlines())
    return f"apiVersion: rabbitmq.com/{version}\nkind: {kind}\nmetadata:\n  name: {name}\nspec:\n{lines}{CLUSTER}"


def test_the_files_are_read_as_the_operator_declares_them(read: Definitions) -> None:
    assert read.vhosts == ("shop",)
    assert named(read, "queues", "work")["arguments"] == {
        "x-dead-letter-exchange": "dlx",
        "x-delivery-limit": 3,
        "x-queue-type": "quorum",
    }
    assert read.topology("shop").queues["dead"].type == "quorum"  # the default of its virtual host
    assert named(read, "exchanges", "dlx")["type"] == "fanout"
    assert named(read, "policies", "limits")["definition"] == {"message-ttl": 60000}
    parameters = {each["component"]: each for each in items(read, "parameters")}
    assert parameters["operator_policy"]["value"] == {
        "pattern": ".*",
        "apply-to": "quorum_queues",
        "priority": 1,
        "definition": {"max-length": 1000},
    }
    assert parameters["vhost-limits"]["value"] == {"max-connections": 100, "max-queues": 50}
    shovel = parameters["shovel"]["value"]
    assert (shovel["delete-after"], shovel["src-delete-after"], shovel["src-queue"]) == (100, "never", "dead")
    assert parameters["federation-upstream"]["value"]["message-ttl"] == 2000


def test_a_user_has_the_name_in_its_secret(read: Definitions) -> None:
    (user,) = items(read, "users")
    assert (user["name"], user["limits"]) == ("orders", {"max-connections": 10, "max-channels": 20})
    assert [each["user"] for each in items(read, "permissions")] == ["orders"]
    assert "not-read" not in json.dumps(read.document)


def test_a_super_stream_is_an_exchange_and_a_queue_for_each_partition(read: Definitions) -> None:
    bound = {each["destination"]: each for each in items(read, "bindings") if each["source"] == "events"}
    assert set(bound) == {"events-north", "events-south"}
    assert bound["events-south"]["arguments"] == {"x-stream-partition-order": 1}
    assert read.topology("shop").queues["events-north"].type == "stream"
    three = parsed(an_object("SuperStream", "name: other", "v1alpha1", "log"))
    assert set(three.topology("/").queues) == {"log-0", "log-1", "log-2"}
    assert "by metadata.name, 'log'" in " ".join(three.remarks)


def test_every_object_has_its_place(read: Definitions) -> None:
    queues = items(read, "queues")
    place = read.place("queues", queues.index(named(read, "queues", "dead")))
    assert place is not None
    assert str(place) == f"{FOLDER / '10-queues.yaml'}, document 4, line 42"
    exchange = read.place("exchanges", items(read, "exchanges").index(named(read, "exchanges", "dlx")))
    assert exchange is not None
    assert exchange.file_and_line == f"{FOLDER / '20-list.yml'}:4"


def test_what_is_left_out_is_said(read: Definitions) -> None:
    said = "\n".join(read.remarks)
    assert "left out, since it describes no topology: Service 'web' (line 72)" in said
    assert "SchemaReplication left out" in said
    assert "its URIs are in the secret 'away-uris'" in said
    assert "1 queue without `durable`, such as 'dead': taken to be durable, as the operator has it from 1.20" in said


def test_defaults_are_those_of_the_operator() -> None:
    kinds = {"Queue": "name: q", "Exchange": "name: e", "Binding": "source: e\ndestination: f"}
    rules = "name: p\npattern: .*\ndefinition: {max-length: 1}"
    kinds |= {"Policy": rules, "OperatorPolicy": rules}
    read = parsed("---\n".join(an_object(kind, spec) for kind, spec in kinds.items()))
    assert read.vhosts == ("/",)
    (queue,), (exchange,), (binding,) = (items(read, each) for each in ("queues", "exchanges", "bindings"))
    assert (queue["durable"], queue["auto_delete"], queue["arguments"]) == (True, False, {})
    assert (exchange["type"], exchange["durable"], exchange["auto_delete"]) == ("direct", False, False)
    assert (binding["destination_type"], binding["routing_key"]) == ("exchange", "")
    assert any("without destinationType: the operator binds an exchange" in said for said in read.remarks)
    assert [each["apply-to"] for each in items(read, "policies")] == ["all"]
    assert [each["value"]["apply-to"] for each in items(read, "parameters")] == ["queues"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (an_object("Queue", "name: q\ndurabel: true"), "line 7: spec.durabel: unknown field; did you mean 'durable'?"),
        (an_object("Queue", "name: 5"), "line 6: spec.name: expected a string, got 5; write text in quotes"),
        (an_object("Queue", "name: on"), "line 6: spec.name: expected a string, got true; write text in quotes"),
        (an_object("Queue", 'name: q\ndurable: "on"'), "line 7: spec.durable: expected true or false, got 'on'"),
        (an_object("Queue", "vhost: a"), "line 5: spec.name: missing; expected a string"),
        (an_object("Queue", "name: q\nname: r"), "line 7: spec.name: the key is there twice; kubectl refuses that"),
        (an_object("Queue", "name: q\narguments: {x-a: null}"), "line 1: arguments.x-a: expected a value, got null"),
        (an_object("Queeu", "name: q"), "line 2: kind: unknown kind 'Queeu'; did you mean 'Queue'?"),
        (an_object("Queue", "name: q", "v1"), "line 1: apiVersion: expected rabbitmq.com/v1beta1 for a Queue"),
        (an_object("Queue", "name: q") + "spce: 1\n", "line 8: spce: unknown field; did you mean 'spec'?"),
        (
            an_object("Binding", "destinationType: qeue"),
            "spec.destinationType: expected one of exchange, queue, got 'qeue'; did you mean 'queue'?",
        ),
        (an_object("Policy", "name: p\npattern: .*"), "line 5: spec.definition: missing; expected an object"),
        (an_object("Vhost", "name: v\ntags: [a, 1]"), "line 7: spec.tags[1]: expected a string, got 1"),
        (an_object("Permission", "vhost: v\npermissions: {}"), "spec.user: expected either user or userReference"),
        (
            an_object("SuperStream", "name: s\npartitions: 3\nroutingKeys: [a]", "v1alpha1"),
            "line 8: spec.routingKeys: expected as many as partitions, 3, got 1",
        ),
        (
            an_object("Queue", "name: q").replace("{name: rabbit}", "{}"),
            "line 7: spec.rabbitmqClusterReference: expected either name or connectionSecret",
        ),
        ("apiVersion: v1\nkind: List\nitems:\n- a: 'b\n", "not YAML"),
        ("kind: {{ .Values.kind }}\na: [\n", "a template of Helm: `helm template` writes what it makes"),
    ],
)
def test_what_is_wrong_is_said_with_its_place_and_what_would_be_right(text: str, said: str) -> None:
    assert said in failing(text)
    assert failing(text).startswith("given.yaml, line ")


def test_several_documents_are_numbered_in_errors() -> None:
    text = "---\n".join([an_object("Queue", "name: q"), "# nothing\n", an_object("Queue", "name: r\ntype: 1")])
    assert failing(text).startswith("given.yaml, document 3, line 17: spec.type: expected a string, got 1")


def test_objects_of_several_clusters_are_refused() -> None:
    one = an_object("Queue", "name: q")
    said = failing(f"{one}---\n{one.replace('rabbit}', 'hare}')}")
    assert "objects of several clusters: hare (given.yaml, document 2, line 9), rabbit (" in said
    where = one.replace("{name: rabbit}", "{name: rabbit, namespace: here}")
    assert "here/rabbit" in failing(f"{where}---\n{where.replace('here', 'there')}")
    assert parsed(f"{one}---\n{where}").vhosts == ("/",)  # a namespace may be left out


def test_json_is_read_too() -> None:
    spec = {"name": "q", "rabbitmqClusterReference": {"name": "rabbit"}}
    given = {"apiVersion": "rabbitmq.com/v1beta1", "kind": "Queue", "metadata": {"name": "q"}, "spec": spec}
    read = definitions_from_text(json.dumps({"kind": "List", "items": [given]}, indent=1).encode(), "list.json")
    assert read.topology("/").queues.keys() == {"q"}
    assert str(read.place("queues", 0)) == "list.json, line 4"


# Each command answers a folder, a file and what is piped to it.

QUESTIONS = [
    ["lint", "SOURCE"],
    ["settings", "SOURCE"],
    ["explain", "SOURCE", "--publish", "", "work", "--outcome", "work=reject"],
    ["graph", "SOURCE"],
    ["upgrade", "SOURCE", "--from", "4.0", "--to", "4.3"],
    ["fuzz", "SOURCE", "--seconds", "1"],
]


@pytest.mark.parametrize("asked", QUESTIONS, ids=lambda asked: asked[0])
def test_every_question_answers_a_folder(asked: list[str], capsys: Capture) -> None:
    assert main([each.replace("SOURCE", str(FOLDER)) for each in asked]) in (0, 1)
    out, err = capsys.readouterr()
    assert "'work'" in out or "dead" in out
    assert "Error" not in err


def test_a_finding_names_file_and_line(capsys: Capture) -> None:
    at = FOLDER / "10-queues.yaml"
    assert main(["lint", str(FOLDER)]) == 1
    assert f"\n  at: {at}:42\n" in capsys.readouterr().out
    main(["lint", str(FOLDER), "--format", "json"])
    (finding,) = [each for each in json.loads(capsys.readouterr().out)["findings"] if each["object"] == "dead"]
    assert finding["place"] == {"file": str(at), "line": 42, "document": 4}
    main(["lint", str(FOLDER), "--format", "sarif"])
    results = json.loads(capsys.readouterr().out)["runs"][0]["results"]
    (found,) = [each["locations"][0]["physicalLocation"] for each in results if each["level"] == "error"]
    assert found == {"artifactLocation": {"uri": str(at)}, "region": {"startLine": 42}}
    main(["lint", str(FOLDER), "--format", "github"])
    assert capsys.readouterr().out.startswith(f"::error file={at},line=42,title=DLX016")
    main(["lint", str(FOLDER), "--format", "junit"])
    assert f"{at}:42: queue 'dead'" in capsys.readouterr().out


def test_standard_input(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    text = an_object("Queue", "name: work\narguments: {x-dead-letter-exchange: none}")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert main(["lint", "-", "--format", "json"]) == 1
    (finding,) = json.loads(capsys.readouterr().out)["findings"]
    assert finding["place"] == {"file": "standard input", "line": 1, "document": None}


def test_over_another_source_objects_keep_their_places(tmp_path: Path, capsys: Capture) -> None:
    below, changes = tmp_path / "below.yaml", tmp_path / "changes.yaml"
    expiring = "vhost: shop\ntype: quorum\ndurable: true\narguments: {x-message-ttl: 5}"
    below.write_text(
        an_object("Queue", "name: kept\ndurable: true") + "---\n" + an_object("Queue", f"name: old\n{expiring}"),
        encoding="utf-8",
    )
    changes.write_text(an_object("Queue", f"name: dead\n{expiring}"), encoding="utf-8")
    main(["lint", str(changes), "--over", str(below), "--format", "json"])
    found = {each["object"]: each["place"] for each in json.loads(capsys.readouterr().out)["findings"]}
    assert (found["dead"]["file"], found["dead"]["line"]) == (str(changes), 1)
    assert (found["old"]["file"], found["old"]["line"]) == (str(below), 10)


def test_names_of_users_that_no_file_tells_are_said() -> None:
    secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: other}\nstringData: {username: u}\n"
    user = an_object("User", "importCredentialsSecret: {name: mine}", name="reader")
    permission = an_object("Permission", "userReference: {name: reader}\nvhost: /\npermissions: {read: .*}")
    read = parsed("---\n".join([user, secret, permission]))
    assert [each["user"] for each in items(read, "permissions")] == ["reader"]
    said = "\n".join(read.remarks)
    assert "the name of a User is in the secret 'mine', which is not here: 'reader', its name in Kubernetes" in said
    assert "given.yaml, document 2, line 9: a Secret left out: no User here has it" in said


def test_what_other_files_may_declare_is_taken_to_be_there() -> None:
    """Nobody imports these objects, and nothing is said of an import; a name that comes near another is a warning."""
    permission = an_object("Permission", "user: svc\nvhost: /\npermissions: {read: .*}")
    queue = an_object("Queue", "name: orders\ndurable: true\ntype: quorum", name="two")
    bound = [
        an_object("Binding", f"source: amq.topic\ndestination: {name}\ndestinationType: queue", name=name)
        for name in ("ordres", "elsewhere")
    ]
    read = parsed("---\n".join([permission, queue, *bound]))
    assert "user 'svc' is not defined here: it is taken to be there" in read.remarks
    told = {each.about.name: each for each in lint(read, release("4.2")).findings if each.code in ("DLX025", "DLX028")}
    assert {name: (each.severity, each.message) for name, each in told.items()} == {
        "ordres": ("warning", "queue 'ordres' of a binding is not declared here; did you mean 'orders'?"),
        "elsewhere": ("note", "queue 'elsewhere' of a binding is not declared here: it is taken to be there."),
    }
    assert "users" not in read.document, "a user without a password would replace the one that is there"


def test_what_a_server_refuses_of_objects_is_told_without_an_import() -> None:
    queue = an_object("Queue", "name: q\ndurable: true\narguments: {x-max-priority: 300}")
    mirroring = an_object("Policy", "name: ha\npattern: .*\ndefinition: {ha-mode: all}", name="two")
    again = an_object("Policy", "name: ha\npattern: b\ndefinition: {max-length: 1}", name="three")
    read = parsed("---\n".join([queue, mirroring, again]))
    told = [each for each in lint(read, release("4.2")).findings if each.code in ("DLX025", "DLX030")]
    assert {each.message.partition(":")[0] for each in told} == {
        "RabbitMQ 4.2 refuses queue 'q'",
        "RabbitMQ 4.2 refuses policy 'ha'",
        "the definitions have policy 'ha' 2 times",
    }
    later = upgraded(read, release("3.13"), release("4.2")).changes
    said = [f"{each.message} {each.because} {each.fix.text}" for each in told] + [each.change.message for each in later]
    assert not [each for each in said if "import" in each]


def test_kinds_of_the_group_that_are_not_read_are_said() -> None:
    cluster = "apiVersion: rabbitmq.com/v1beta1\nkind: RabbitmqCluster\nmetadata: {name: c}\n"
    unknown = cluster.replace("RabbitmqCluster", "SomethingElse")
    read = parsed("---\n".join([an_object("Queue", "name: q\ndurable: true"), cluster, unknown]))
    assert [each.partition(": ")[2] for each in read.remarks] == [
        "RabbitmqCluster left out: the configuration of a cluster is not read",
        "SomethingElse left out: nothing is known of its kind",
    ]
