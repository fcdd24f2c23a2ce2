"""The release table is complete, its rows are what tells releases apart, and every row is read."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import textwrap
from itertools import pairwise
from pathlib import Path
from types import FunctionType
from typing import get_args

import msgspec
import pytest

from dlx.releases import (
    DEFAULT,
    MESSAGE_ROWS,
    RELEASES,
    SUBJECTS,
    TABLE,
    VERSIONS,
    Release,
    ReleaseName,
    Row,
    StandInRelease,
    UnknownReleaseError,
    differing_behaviours,
    release,
    rules_of,
)
from dlx.releases.versions import numbers
from dlx.retries import RetryPlan
from simulator.broker import Broker
from simulator.message_history import RecordingBroker
from simulator.scenario.player import Player
from simulator.scenario.rabbitmq_scenario import simulate
from simulator.server.amqp import connection as introductions
from simulator.server.amqp.connection import server_properties
from simulator.server.management import management_releases
from simulator.server.management.management_releases import api_of

ROOT = Path(__file__).parent.parent.parent
ROWS = (*TABLE, *management_releases.TABLE, *introductions.TABLE)
every_row = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)


def test_a_release_has_the_behaviours_of_all_subjects():
    assert [row.name for row in TABLE] == [
        name for name in Release.__struct_fields__ if name not in ("name", "version")
    ]
    assert len({row.name for row in TABLE}) == len(TABLE), "two subjects have a row of the same name"
    assert set(MESSAGE_ROWS) < set(TABLE)
    assert [each.__name__ for each in SUBJECTS][:2] == ["MessageRows", "RoutingRows"]
    assert release("4.0").client_deaths_continued is False
    assert release("3.13").client_deaths_continued is True
    front = [name for name in RELEASES if release(name).quorum_requeue_without_limit == "front"]
    assert front == ["3.8", "3.9", "4.3"]


def test_the_names_for_type_checkers_are_the_releases():
    assert get_args(ReleaseName) == RELEASES
    assert tuple(VERSIONS) == RELEASES
    assert sorted(RELEASES, key=numbers) == list(RELEASES)
    assert all(version.startswith(f"{name}.") for name, version in VERSIONS.items())


@every_row
def test_a_row_says_what_it_decides_and_how_that_is_known(row: Row):
    dates = [numbers(date) for date, _ in row.changes]
    assert dates == sorted(set(dates))
    assert dates
    assert all(dates), "a date is a version"
    values = [row.before, *(value for _, value in row.changes)]
    assert all(one != next_one for one, next_one in pairwise(values)), "a change changes something"
    assert len(set(map(str, row.values))) > 1, "a row is a difference between releases"
    assert row.meaning.endswith((".", ")"))
    assert row.evidence
    assert set(row.undecided) < set(RELEASES)
    for name in row.undecided:
        here, later = row.value_in(VERSIONS[name]), row.values[RELEASES.index(name) + 1 :]
        assert any(value != here for value in later), "nothing is undecided where no later release differs"


def test_every_row_is_read_by_code_outside_the_table():
    read = set()
    for package in ("dlx", "simulator"):
        for path in (ROOT / package).rglob("*.py"):
            if path.parent.name != "releases" and path.stem != "management_releases":
                read |= {
                    node.attr
                    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
                    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
                }
    assert [row.name for row in ROWS if row.name not in read] == []


# A further release


def test_a_further_release_behaves_as_the_one_before_it_where_no_row_says_otherwise():
    further = rules_of("5.0", "5.0.2")
    assert further == msgspec.structs.replace(release("4.3"), name="5.0", version="5.0.2")
    assert rules_of("4.0", "4.0.9") == msgspec.structs.replace(release("4.0"), version="4.0.9")
    assert api_of(further) == msgspec.structs.replace(api_of(release("4.3")), broker=further)
    assert Broker(further).release is further
    properties = server_properties(further, "rabbit@host")
    assert properties == server_properties(release("4.3"), "rabbit@host") | {"version": "5.0.2"}


def test_a_further_release_is_one_line(tmp_path: Path):
    shutil.copytree(ROOT / "dlx", tmp_path / "dlx")
    versions = tmp_path / "dlx" / "releases" / "versions.py"
    last = '    "4.3": "4.3.6",\n'
    text = versions.read_text(encoding="utf-8")
    assert text.count(last) == 1
    versions.write_text(text.replace(last, f'{last}    "4.4": "4.4.1",\n'), encoding="utf-8")
    program = """
        from dlx.releases import RELEASES, TABLE, differing_behaviours, release
        from simulator.broker import Broker
        from simulator.server.management.management_releases import api_of

        assert RELEASES[-1] == "4.4"
        assert release("4.4").version == release("4.4.1").version == "4.4.1"
        assert differing_behaviours(release("4.4"), release("4.3")) == ()
        assert all(row.values[-1] == row.values[-2] for row in TABLE)
        assert api_of(release("4.4")).definitions_queue_type
        assert Broker("4.4").release.name == "4.4"
    """
    path = os.pathsep.join((str(tmp_path), str(ROOT)))
    command = [sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(command, cwd=tmp_path, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_release_between_two_has_the_changes_that_are_dated_exactly():
    between = differing_behaviours(rules_of("4.2", "4.2.0"), rules_of("4.2", "4.2.1"))
    assert [row.name for row in between] == ["quorum_overflow_before_delivery_limit", "quorum_drop_head_order"]
    assert rules_of("4.3", "4.3.4").topic_hash_wildcards_max is None
    assert rules_of("4.3", "4.3.5").topic_hash_wildcards_max == 2


# The release of a name or version


def test_exact_versions_find_their_release():
    for name, version in VERSIONS.items():
        assert release(version) is release(name)
        assert release(name).version == version
    assert release().name == DEFAULT == "4.3"


@pytest.mark.parametrize(
    ("asked", "found", "remark"),
    [
        ("3.13.0", "3.13", "the rules of RabbitMQ 3.13.7 stand in for those of 3.13.0: death_order changed in 3.13.3"),
        ("3.13.3", "3.13", "the rules of RabbitMQ 3.13.7 stand in for those of 3.13.3"),
        ("4.3.0-rc.1", "4.3", "the rules of RabbitMQ 4.3.6 stand in for those of 4.3.0-rc.1:"
         " topic_hash_wildcards_max changed in 4.3.5; definitions_internal_exchanges changed in 4.3.3;"
         " definitions_exclusive_bindings changed in 4.3.3"),
        ("4.3.5", "4.3", "the rules of RabbitMQ 4.3.6 stand in for those of 4.3.5"),
        ("4.0.9", "4.0", "the rules of RabbitMQ 4.0.5 stand in for those of 4.0.9"),
        ("4.2.3", "4.2", "the rules of RabbitMQ 4.2.9 stand in for those of 4.2.3:"
         " channel_limit_refusal changed in 4.2.6; definitions_byte_order_mark changed in 4.2.5;"
         " definitions_unknown_queue_type changed in 4.2.8; definitions_internal_exchanges changed in 4.2.9;"
         " definitions_exclusive_bindings changed in 4.2.9"),
        ("3.12.0", "3.12", "the rules of RabbitMQ 3.12.14 stand in for those of 3.12.0:"
         " operator_overflow changed in 3.12.8; operator_policy_keys changed in 3.12.8;"
         " channel_limit_refusal changed in 3.12.13"),
    ],
)  # fmt: skip
def test_another_version_of_a_release_is_taken_with_a_warning(asked: str, found: str, remark: str):
    with pytest.warns(StandInRelease) as warned:
        assert release(asked) is release(found)
    assert [str(each.message) for each in warned] == [remark]
    assert warned[0].filename == __file__


@pytest.mark.parametrize(
    "use",
    [
        lambda: Broker("4.0.9"),
        lambda: RecordingBroker("4.0.9"),
        lambda: Player({"queues": []}, release="4.0.9"),
        lambda: RetryPlan(delays_ms=(1_000,), release="4.0.9"),
        lambda: simulate({"release": "4.0.9", "definitions": {"queues": []}, "steps": []}),
    ],
)
def test_the_warning_points_at_the_users_line(use: FunctionType):
    with pytest.warns(StandInRelease) as warned:
        use()
    assert {(each.filename, each.lineno) for each in warned} == {(__file__, use.__code__.co_firstlineno)}


@pytest.mark.parametrize(
    ("asked", "nearest"),
    [
        ("2.8", "; the nearest is 3.8"),
        ("3.7.28", "; the nearest is 3.8"),
        ("3.14", "; the nearest are 3.13 and 4.0"),
        ("4", "; the nearest are 3.13 and 4.0"),
        ("4.4.0", "; the nearest is 4.3"),
        ("4.30", "; the nearest is 4.3"),
        ("4.3x", ""),
        ("4.3-acme", ""),
        ("4.3.", ""),
        ("4.3.x", ""),
        ("latest", ""),
        ("", ""),
    ],
)
def test_an_unknown_release_is_refused_with_the_nearest(asked: str, nearest: str):
    with pytest.raises(UnknownReleaseError) as refused:
        release(asked)
    assert str(refused.value) == (
        f"no release {asked!r}: known are 3.8, 3.9, 3.10, 3.11, 3.12, 3.13, 4.0, 4.1, 4.2, 4.3{nearest}"
    )


def test_releases_differ_in_table_order():
    names = [row.name for row in differing_behaviours(release("4.0"), release("4.3"))]
    assert "client_deaths_continued" not in names
    assert "quorum_acquired_count_header" in names
    assert names == [row.name for row in TABLE if row.name in names]


def test_a_release_is_immutable_and_hashed_by_its_name():
    rules = release("4.0")
    with pytest.raises(AttributeError):
        rules.death_order = "recency"  # type: ignore[misc]
    assert hash(rules) == hash("4.0")
    assert repr(rules) == "dlx.release('4.0')"
    other = msgspec.structs.replace(rules, client_deaths_continued=True)
    assert other != rules
    assert "client_deaths_continued=True" in repr(other)
