"""The release that wrote the definitions of a replay, and what is said where its rules are not known exactly."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from dlx.releases import RELEASES, release
from simulator.bootstrap import as_server_has_it
from simulator.capture import open_log
from simulator.definitions import Definitions, DefinitionsError, parse_definitions
from simulator.definitions.checks import check_taken, version_note
from simulator.replay import replay_table
from simulator.replay.rows.topologies import exporting_release
from tests.replay.logs import EXAMPLES, example_records, write_log

THERE_ARE = f" (there are rules for {RELEASES[0]} to {RELEASES[-1]})"


def exported_by(version: Any) -> Definitions:
    """The definitions of the example of 3.10 as another version would have written them."""
    document = json.loads((EXAMPLES / "captured-3.10" / "definitions.json").read_text(encoding="utf-8"))
    document.pop("rabbit_version", None)
    return parse_definitions(json.dumps(document | {"rabbitmq_version": version}).encode(), "definitions.json")


@pytest.mark.parametrize(
    ("version", "found", "note"),
    [
        ("4.0.5", "4.0", None),
        ("4.0.9", "4.0", "the rules of RabbitMQ 4.0.5 stand in for those of 4.0.9"),
        ("4.1.2", "4.1", "RabbitMQ 4.1.2 exported the definitions; the rules are those of 4.0"),
        ("3.12.14", "3.12", "RabbitMQ 3.12.14 exported the definitions; the rules are those of 4.0"),
        ("4.4.0", "4.3", f"RabbitMQ 4.4.0 exported the definitions; the rules are those of 4.0{THERE_ARE}"),
        ("5.0.0", "4.3", f"RabbitMQ 5.0.0 exported the definitions; the rules are those of 4.0{THERE_ARE}"),
        ("3.7.28", None, f"RabbitMQ 3.7.28 exported the definitions; the rules are those of 4.0{THERE_ARE}"),
        ("unknown", None, f"RabbitMQ unknown exported the definitions; the rules are those of 4.0{THERE_ARE}"),
        (7, None, None),
    ],
)
def test_the_exporting_release_is_the_nearest_that_is_known(version: Any, found: str | None, note: str | None) -> None:
    definitions = exported_by(version)
    exporter = exporting_release(definitions)
    assert (None if exporter is None else exporter.name) == found
    assert version_note(definitions, release("4.0")) == note


def test_the_patch_release_of_an_export_changes_nothing_in_a_replay(tmp_path: Path) -> None:
    log = write_log(tmp_path / "trace.log", example_records("3.10")[:1_500])
    same, other = (replay_table(open_log(log), exported_by(version), "3.13") for version in ("3.10.8", "3.10.20"))
    assert other.equals(same)


def with_queue(arguments: dict[str, Any], **fields: Any) -> Definitions:
    queue = {"name": "q", "vhost": "/", "durable": True, "auto_delete": False, "arguments": arguments, **fields}
    return parse_definitions(json.dumps({"vhosts": [{"name": "/"}], "queues": [queue]}).encode(), "definitions.json")


def with_policy(definition: dict[str, Any], pattern: str = ".*", apply_to: str = "queues") -> Definitions:
    policy = {"name": "p", "vhost": "/", "pattern": pattern, "definition": definition, "apply-to": apply_to}
    return parse_definitions(json.dumps({"vhosts": [{"name": "/"}], "policies": [policy]}).encode(), "definitions.json")


@pytest.mark.parametrize(
    ("definitions", "where", "words"),
    [
        (with_queue({"x-overflow": "rejct-publish"}), "queues[0].arguments.x-overflow", "mean 'reject-publish'?"),
        (with_queue({"x-message-ttl": "soon"}), "queues[0].arguments.x-message-ttl", "expected integer"),
        (with_queue({"x-message-ttl": -5}), "queues[0].arguments.x-message-ttl", "is less than 0"),
        (with_queue({"x-max-length": -1}), "queues[0].arguments.x-max-length", "is less than 0"),
        (with_queue({"x-queue-type": "quorom"}), "queues[0].arguments.x-queue-type", "did you mean 'quorum'?"),
        (with_policy({"max-length": 5}, pattern="("), "policies[0].pattern", "regular expression"),
        (with_policy({"mesage-ttl": 5}), "policies[0].definition.mesage-ttl", "did you mean 'message-ttl'?"),
        (with_policy({"expires": 9, "message-ttl": "5"}), "policies[0].definition.message-ttl", "not a valid"),
        (with_policy({"max-length": 5}, apply_to="qeues"), "policies[0].apply-to", "did you mean 'queues'?"),
    ],
)  # fmt: skip
def test_what_no_server_takes_is_told_by_its_place_and_left_out(
    definitions: Definitions, where: str, words: str
) -> None:
    for rules in ("3.8", "4.3"):
        told = "; ".join(check_taken(definitions, release(rules)))
        assert re.search(rf"{re.escape(where)} of '\w+': no RabbitMQ takes this, so it is left out here: ", told)
        section = where.partition("[")[0]
        assert as_server_has_it(definitions, release(rules)).document[section] != definitions.document[section]
    assert words in told


@pytest.mark.parametrize(
    ("definitions", "rules", "note"),
    [
        (with_queue({"x-queue-type": "quorum", "x-delivery-limit": "7"}), "4.3", "reads no limit from it"),
        (with_queue({"x-mesage-ttl": 5}), "4.3", "did you mean 'x-message-ttl'?"),
        (with_queue({"x-queue-type": "classic"}, type="quorum"), "4.3", "RabbitMQ ignores 'quorum'"),
        (with_queue({}, type="quorum"), "3.8", "is of type classic, by the default: it has no argument x-queue-type"),
        (with_queue({"x-delivery-limit": 7}), "4.3", "RabbitMQ 4.3 refuses this"),  # 3.8 takes it
        (with_policy({"ha-mode": "all"}), "4.3", "RabbitMQ 4.3 refuses this"),  # 3.8 takes it
        (with_policy({"federation-upstream-set": "all"}), "3.8", "RabbitMQ 3.8 refuses this"),  # the plugin takes it
    ],
)
def test_what_some_servers_take_or_ignore_is_told(definitions: Definitions, rules: str, note: str) -> None:
    (told,) = check_taken(definitions, release(rules))
    assert note in told


def test_a_name_that_servers_of_another_time_read_is_not_misspelt() -> None:
    """3.8 reads x-queue-master-locator, though its successor has nearly the same name."""
    assert check_taken(with_queue({"x-queue-master-locator": "min-masters"}), release("3.8")) == ()


def test_a_name_that_only_a_later_release_knows_is_not_its_own_nearest() -> None:
    (told,) = check_taken(with_queue({"x-queue-type": "stream"}), release("3.8"))
    assert "RabbitMQ 3.8 refuses this" in told
    assert "did you mean" not in told


@pytest.mark.parametrize("captured", ["captured-3.10", "captured-4.3"])
def test_nothing_is_said_of_what_a_server_exported(captured: str) -> None:
    definitions = parse_definitions((EXAMPLES / captured / "definitions.json").read_bytes(), captured)
    assert check_taken(definitions, release(captured.removeprefix("captured-"))) == ()


@pytest.mark.parametrize(
    ("fields", "arguments", "kind"),
    [
        ({"type": "quorum"}, {"x-queue-type": "classic"}, "classic"),
        ({"type": "classic"}, {"x-queue-type": "quorum"}, "quorum"),
        ({"type": "quorum"}, {}, "classic"),
        ({"type": "rabbit_stream_queue"}, {}, "classic"),
        ({}, {}, "classic"),
    ],
)
def test_the_argument_decides_which_type_a_queue_has(
    fields: dict[str, Any], arguments: dict[str, Any], kind: str
) -> None:
    assert with_queue(arguments, **fields).topology("/").queues["q"].type == kind


def test_the_export_of_one_virtual_host_has_no_parts_of_another() -> None:
    queue = {"name": "q", "vhost": "other", "arguments": {}}
    document = {"original_vhost_name": "shop", "queues": [queue]}
    with pytest.raises(DefinitionsError, match=r"queues\[0\]\.vhost: expected 'shop'.* got 'other'"):
        check_taken(parse_definitions(json.dumps(document).encode(), "definitions.json"), release("4.3"))
