"""What `terraform show -json` writes of a plan and of a state, from files made by hand that have every field."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from dlx.releases import release
from simulator.analysis.lint.linting import lint
from simulator.cli.main import main
from simulator.definitions import Definitions, DefinitionsError
from simulator.sources import definitions_from_file, definitions_from_text
from simulator.sources.terraform import RESOURCES
from tests.sources.reading import named, paths

FOLDER = Path(__file__).parent / "terraform"
PLAN, STATE = FOLDER / "plan.json", FOLDER / "state.json"
Capture = pytest.CaptureFixture[str]

# The fields of the provider's schemas in release 1.10, besides `id`.
RULE = "name policy.apply_to policy.definition policy.pattern policy.priority vhost"
FIELDS = {
    "rabbitmq_vhost": "default_queue_type description max_connections max_queues name tracing",
    "rabbitmq_queue": "name settings.arguments settings.arguments_json settings.auto_delete settings.durable vhost",
    "rabbitmq_exchange": "name settings.arguments settings.auto_delete settings.durable settings.type vhost",
    "rabbitmq_binding": "arguments arguments_json destination destination_type properties_key routing_key source vhost",
    "rabbitmq_policy": RULE,
    "rabbitmq_operator_policy": RULE,
    "rabbitmq_user": "name password tags",
    "rabbitmq_permissions": "permissions.configure permissions.read permissions.write user vhost",
    "rabbitmq_topic_permissions": "permissions.exchange permissions.read permissions.write user vhost",
    "rabbitmq_shovel": "info.ack_mode info.add_forward_headers info.delete_after info.destination_add_forward_headers "
    "info.destination_add_timestamp_header info.destination_address info.destination_application_properties "
    "info.destination_exchange info.destination_exchange_key info.destination_properties info.destination_protocol "
    "info.destination_publish_properties info.destination_queue info.destination_queue_arguments info.destination_uri "
    "info.prefetch_count info.reconnect_delay info.source_address info.source_delete_after info.source_exchange "
    "info.source_exchange_key info.source_prefetch_count info.source_protocol info.source_queue info.source_uri "
    "name vhost",
    "rabbitmq_federation_upstream": "component definition.ack_mode definition.exchange definition.expires "
    "definition.max_hops definition.message_ttl definition.prefetch_count definition.queue definition.reconnect_delay "
    "definition.trust_user_id definition.uri name vhost",
}


def resources(module: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    yield from module.get("resources", [])
    for each in module.get("child_modules", []):
        yield from resources(each)


def plan() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(PLAN.read_text(encoding="utf-8"))
    return found


@pytest.fixture(scope="module")
def read() -> Definitions:
    return definitions_from_file(PLAN)


def parsed(given: Mapping[str, Any]) -> Definitions:
    return definitions_from_text(json.dumps(given).encode(), "plan.json")


def a_plan(kind: str, values: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    resource = {"address": f"{kind}.one", "mode": "managed", "type": kind, "name": "one", "values": values}
    root = {"root_module": {"resources": [resource]}}
    return {"format_version": "1.2", "terraform_version": "1.11.4", "planned_values": root, **more}


QUEUE = {"name": "q", "vhost": "/", "settings": [{"durable": True}]}


@pytest.mark.parametrize("kind", RESOURCES)
def test_every_field_of_the_schema_is_known_and_in_the_plan(kind: str) -> None:
    assert set(paths(RESOURCES[kind], RESOURCES[kind])) == set(FIELDS[kind].split())
    written = [each["values"] for each in resources(plan()["planned_values"]["root_module"]) if each["type"] == kind]
    assert {path for each in written for path in paths(each, RESOURCES[kind])} >= set(FIELDS[kind].split())


def test_the_plan_is_read_as_the_provider_declares_it(read: Definitions) -> None:
    assert read.vhosts == ("shop",)
    assert named(read, "vhosts", "shop")["metadata"]["default_queue_type"] == "quorum"
    assert read.topology("shop").queues["dead"].type == "quorum"
    assert named(read, "queues", "work-eu")["arguments"] == {
        "x-dead-letter-exchange": "dlx",
        "x-delivery-limit": 3,
        "x-queue-type": "quorum",
    }
    assert named(read, "queues", "work-us")["arguments"]["x-message-ttl"] == "5000"  # which no server takes
    assert named(read, "exchanges", "dlx")["arguments"] == {"alternate-exchange": "lost"}
    assert named(read, "policies", "limits") == {
        "vhost": "shop",
        "name": "limits",
        "pattern": "^work",
        "apply-to": "queues",
        "definition": {"message-ttl": 60000, "overflow": "reject-publish"},
        "priority": 2,
    }
    (binding,) = read.document["bindings"]
    assert (binding["source"], binding["destination"], binding["routing_key"]) == ("dlx", "dead", "all")
    assert (binding["destination_type"], binding["arguments"]) == ("queue", {"kind": "order"})
    parameters = {each["component"]: each["value"] for each in read.document["parameters"]}
    assert parameters["vhost-limits"] == {"max-connections": 100, "max-queues": 50}
    assert parameters["operator_policy"]["definition"] == {"max-length": 1000}
    shovel = parameters["shovel"]
    assert (shovel["delete-after"], shovel["src-delete-after"], shovel["src-queue"]) == (100, "never", "dead")
    assert (shovel["dest-queue-args"], shovel["dest-uri"]) == ({"x-queue-type": "quorum"}, ["amqp://"])
    assert parameters["federation-upstream"]["message-ttl"] == 2000
    assert [each["exchange"] for each in read.document["topic_permissions"]] == ["events", "audit"]
    assert read.document["permissions"][0]["read"] == "^work"
    assert read.document["users"] == [{"name": "worker", "password_hash": "", "tags": ["management"]}]


def test_a_place_has_the_address_of_the_resource(read: Definitions) -> None:
    place = read.place("queues", read.document["queues"].index(named(read, "queues", "work-us")))
    assert place is not None
    lines = PLAN.read_text(encoding="utf-8").splitlines()
    assert lines[place.line] == f"{' ' * 14}" + r'"address": "module.orders.rabbitmq_queue.work[\"us\"]",'
    assert str(place).endswith(f'plan.json, line {place.line} (module.orders.rabbitmq_queue.work["us"])')


def test_what_is_known_only_after_apply_is_said(read: Definitions) -> None:
    said = "\n".join(read.remarks)
    assert "(module.orders.rabbitmq_queue.reply): left out: known only after apply: name" in said
    assert "(module.orders.rabbitmq_queue.later): taken as not set, since it is known only after apply: " in said
    assert "settings[0].arguments.x-dead-letter-exchange" in said
    assert {each["name"] for each in read.document["queues"]} == {"work-eu", "work-us", "dead", "later"}
    assert "servers get strings for x-message-ttl; `arguments_json` hands on numbers" in said
    assert "worker" not in said.replace("random_password.worker", "")  # its password is not read
    assert "data sources (1), random_password (1)" in said


def test_lint_assumes_what_is_known_only_after_apply(read: Definitions) -> None:
    (assumed,) = [each for each in lint(read, release("4.3")).assumed if "known only after apply" in each]
    assert "(module.orders.rabbitmq_queue.later): taken as not set" in assumed


@pytest.mark.parametrize(
    ("kind", "values", "unknown"),
    [
        ("rabbitmq_queue", QUEUE, {"vhost": True}),
        ("rabbitmq_queue", {"name": "q"}, {"settings": True}),
        ("rabbitmq_binding", {"source": "a"}, {"destination": True}),
        (
            "rabbitmq_policy",
            {"name": "p", "vhost": "/", "policy": [{"pattern": "x"}]},
            {"policy": [{"definition": True}]},
        ),
        ("rabbitmq_shovel", {"name": "s", "vhost": "/"}, {"info": True}),
    ],
)
def test_a_resource_of_which_too_little_is_known_is_left_out(
    kind: str, values: dict[str, Any], unknown: dict[str, Any]
) -> None:
    given = a_plan(kind, values)
    given["planned_values"]["root_module"]["resources"].append(
        {"address": "rabbitmq_queue.q", "mode": "managed", "type": "rabbitmq_queue", "name": "q", "values": QUEUE}
    )
    given["resource_changes"] = [{"address": f"{kind}.one", "change": {"after_unknown": unknown}}]
    read = parsed(given)
    assert f"({kind}.one): left out: known only after apply: " in read.remarks[0]
    assert {each for each in read.document if each != "vhosts"} == {"queues"}


def test_the_state_is_read() -> None:
    read = definitions_from_file(STATE)
    assert read.vhosts == ("/",)
    assert named(read, "queues", "work")["arguments"] == {"x-dead-letter-exchange": "dlx"}
    assert read.document["bindings"][0]["arguments"] == {"x-match": "all", "tries": 3}
    assert str(read.place("bindings", 0)) == f"{STATE}, line 1 (rabbitmq_binding.work[0])"


def test_a_field_of_a_later_release_is_left_out_with_a_note() -> None:
    read = parsed(a_plan("rabbitmq_queue", {**QUEUE, "colour": "red"}))
    assert read.topology("/").queues.keys() == {"q"}
    assert read.remarks == (
        "plan.json, line 1 (rabbitmq_queue.one): fields that are not known here and left out: colour",
    )


def test_an_incomplete_plan_is_said() -> None:
    assert "the plan is not complete" in parsed(a_plan("rabbitmq_queue", QUEUE, errored=True)).remarks[0]


SHOW = "`terraform show -json PLAN` or `terraform show -json` writes what is read"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('# queues\nresource "rabbitmq_queue" "work" {\n  name = "work"\n}\n', f"a file of Terraform's; {SHOW}"),
        ('terraform {\n  required_version = "1.1"\n}\n', f"a file of Terraform's; {SHOW}"),
        ("PK\x03\x04....", f"a file of Terraform's; {SHOW}"),
        (
            '{"@level":"info","@message":"Terraform 1.9.5"}\n{"@level":"info"}\n',
            f"messages of `terraform plan -json`; {SHOW}",
        ),
        ('{"@level":"info"}\n', f"messages of `terraform plan -json`; {SHOW}"),
        ('{"version": 4, "terraform_version": "1.11.4", "resources": []}', f"a state as Terraform keeps it; {SHOW}"),
        ('{"format_version": "2.0", "terraform_version": "3"}', "line 1: format_version: expected 1 and what"),
        (json.dumps(a_plan("rabbitmq_queue", {"name": 1})), "values.name: expected a string, got 1"),
        (json.dumps(a_plan("rabbitmq_queue", {"name": "q"})), "(rabbitmq_queue.one): values.settings: missing"),
        (
            json.dumps(a_plan("rabbitmq_queue", {"name": "q", "settings": [{"arguments_json": "{"}]})),
            "(rabbitmq_queue.one): values.settings[0].arguments_json: not JSON",
        ),
        (
            json.dumps(a_plan("rabbitmq_vhost", {"name": "v", "max_queues": "many"})),
            "values.max_queues: expected an integer, got 'many'",
        ),
        (json.dumps(a_plan("rabbitmq_vhosts", {"name": "v"})), "no topology in it"),
        (json.dumps(a_plan("rabbitmq_vhosts", {"name": "v"})), "rabbitmq_vhosts (1), did you mean 'rabbitmq_vhost'?"),
    ],
)
def test_what_is_wrong_is_said(text: str, said: str) -> None:
    with pytest.raises(DefinitionsError) as caught:
        definitions_from_text(text.encode(), "given")
    assert said in str(caught.value)


def test_lint_names_the_resource(capsys: Capture) -> None:
    assert main(["lint", str(PLAN)]) == 1
    out, err = capsys.readouterr()
    assert "plan.json:" in out
    assert '(module.orders.rabbitmq_queue.work["us"])' in out + err
    main(["lint", str(PLAN), "--format", "json"])
    places = [each["place"] for each in json.loads(capsys.readouterr().out)["findings"] if each["place"]]
    assert any("rabbitmq_" in each["address"] for each in places)


def test_plan_prints_the_notes_of_both_sources(tmp_path: Path, capsys: Capture) -> None:
    for name, queue in (("old", {**QUEUE, "shade": 1}), ("new", {**QUEUE, "colour": "red"})):
        (tmp_path / f"{name}.json").write_text(json.dumps(a_plan("rabbitmq_queue", queue)), encoding="utf-8")
    assert main(["plan", str(tmp_path / "old.json"), str(tmp_path / "new.json")]) == 0
    said = capsys.readouterr().err
    assert "left out: shade" in said
    assert "left out: colour" in said


def test_convert_writes_definitions_that_all_servers_take_and_says_that_they_hold_secrets(
    tmp_path: Path, capsys: Capture
) -> None:
    out = tmp_path / "out.json"
    assert main(["convert", "--to", "definitions", str(PLAN), "--out", str(out)]) == 0
    assert f"note: {out} holds hashes or passwords" not in capsys.readouterr().err
    assert json.loads(out.read_bytes())["users"][0]["tags"] == "management"  # 3.8 refuses lists
    shovel = {"source_uri": "amqp://u:hunter2@h", "destination_uri": "amqp://"}
    source = tmp_path / "shovel.json"
    given = a_plan("rabbitmq_shovel", {"name": "s", "vhost": "/", "info": [shovel]})
    source.write_text(json.dumps(given), encoding="utf-8")
    assert main(["convert", "--to", "definitions", str(source), "--out", str(out)]) == 0
    assert f"note: {out} holds hashes or passwords" in capsys.readouterr().err
    assert main(["convert", "--redact", str(source), "--out", str(out)]) == 0
    assert "hunter2" not in out.read_text(encoding="utf-8")


DELETED = [{"address": "rabbitmq_queue.q", "type": "rabbitmq_queue", "change": {"actions": ["delete"]}}]
NONE = "has no resources of the provider rabbitmq"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"format_version": "1.0"}, f"this state {NONE}"),
        ({**a_plan("aws_s3_bucket", {})}, f"this plan {NONE}"),
        (
            {**a_plan("aws_s3_bucket", {}), "planned_values": {"root_module": {}}, "resource_changes": DELETED},
            f"this plan {NONE}: it deletes 1",
        ),
    ],
)
def test_a_plan_for_others_is_read_as_empty(given: dict[str, Any], said: str, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "plan.json").write_text(json.dumps(given), encoding="utf-8")
    assert main(["lint", str(tmp_path / "plan.json")]) == 0
    out, err = capsys.readouterr()
    assert f"plan.json: {said}\n" in err
    assert "no findings in 0 queues" in out


def test_an_unknown_field_is_said_with_the_address() -> None:
    policy = {"pattern": "x", "priority": 1, "apply_to": "all", "definitoin": {}}
    with pytest.raises(DefinitionsError) as caught:
        parsed(a_plan("rabbitmq_policy", {"name": "p", "vhost": "/", "policy": [policy]}))
    assert str(caught.value) == (
        "plan.json, line 1 (rabbitmq_policy.one): values.policy[0].definitoin: unknown field; "
        "did you mean 'definition'?"
    )


def test_a_user_that_no_resource_defines_is_taken_to_be_there() -> None:
    rights = [{"configure": "", "write": "", "read": ".*"}]
    read = parsed(a_plan("rabbitmq_permissions", {"user": "svc", "vhost": "/", "permissions": rights}))
    assert "user 'svc' is not defined here: it is taken to be there" in read.remarks
    assert lint(read, release("4.2")).findings == ()


@pytest.mark.parametrize("form", ["sarif", "github"])
def test_annotations_name_the_resource(form: str, capsys: Capture) -> None:
    assert main(["lint", str(PLAN), "--format", form]) == 1
    assert "module.orders.rabbitmq_queue.work[" in capsys.readouterr().out
