"""The release that wrote the definitions of a replay, and what is said where its rules are not known exactly."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dlx.releases import release
from simulator.capture import open_log
from simulator.definitions import Definitions, parse_definitions
from simulator.replay import replay_table
from simulator.replay.definitions import exporting_release, version_note
from tests.replay.logs import EXAMPLES


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
        ("4.4.0", "4.3", "RabbitMQ 4.4.0 exported the definitions; the rules are those of 4.0"),
        ("5.0.0", "4.3", "RabbitMQ 5.0.0 exported the definitions; the rules are those of 4.0"),
        ("3.7.28", None, "RabbitMQ 3.7.28 exported the definitions; the rules are those of 4.0"),
        ("unknown", None, "RabbitMQ unknown exported the definitions; the rules are those of 4.0"),
        (7, None, None),
    ],
)
def test_the_exporting_release_is_the_nearest_that_is_known(version: Any, found: str | None, note: str | None) -> None:
    definitions = exported_by(version)
    exporter = exporting_release(definitions)
    assert (None if exporter is None else exporter.name) == found
    assert version_note(definitions, release("4.0")) == note


def test_the_patch_release_of_an_export_changes_nothing_in_a_replay() -> None:
    log = EXAMPLES / "captured-3.10" / "trace.log.gz"
    same, other = (replay_table(open_log(log), exported_by(version), "3.13") for version in ("3.10.8", "3.10.20"))
    assert other.equals(same)
