"""What a server exports, it has: each question about it is answered, also where an import would refuse the export."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pika
import pytest

from dlx.releases import RELEASES, release
from simulator.analysis.lint.linting import LintReport, lint
from simulator.analysis.snapshot import Snapshot
from simulator.bootstrap import import_definitions, start_broker
from simulator.broker import Broker
from simulator.cli.main import main
from simulator.definitions import Definitions, DefinitionsError
from simulator.testing.brokers.simulated import Simulator
from tests.analysis.random_states import RandomState
from tests.testing.test_search import topology
from tests.testing.test_trial import queue

STATES = int(os.environ.get("DLX_STATES", "3"))
"""Random states for each broker."""
HTTP = {"product_name": "RabbitMQ"}
"""What exports over HTTP have, and those of rabbitmqctl do not."""
Capture = pytest.CaptureFixture[str]
Broker_ = Any


def linted(document: dict[str, Any], of: str = "4.3") -> LintReport:
    return lint(Definitions(document, "definitions"), release(of))


def bound(source: str, to: str, key: str = "", **arguments: Any) -> dict[str, Any]:
    ends = {"source": source, "destination": to, "destination_type": "queue"}
    return {**ends, "vhost": "/", "routing_key": key, "arguments": arguments}


# -- queues that clients have ------------------------------------------------------


@pytest.mark.parametrize("of", RELEASES)
def test_a_queue_that_the_server_has_named_takes_dead_letters(of: str) -> None:
    work = queue("work", message_ttl=60_000, dead_letter_exchange="dlx")
    document = topology([work, queue("amq.gen-AAAA")], {"dlx": "fanout"}) | {"bindings": [bound("dlx", "amq.gen-AAAA")]}
    report = linted(document, of)
    assert [each.name for each in report.findings if each.severity == "error"] == []
    assert (report.queues, report.unchecked) == (2, ())


@pytest.mark.parametrize("of", RELEASES)
def test_a_queue_that_only_bindings_name_takes_dead_letters_and_is_told(of: str) -> None:
    work = queue("work", message_ttl=60_000, dead_letter_exchange="dlx")
    document = topology([work], {"dlx": "fanout"}) | {"bindings": [bound("dlx", "reader")], "rabbit_version": of}
    report = linted(document, of)
    assert report.findings == ()
    assert "what happens to messages in queue 'reader'" in "".join(report.unchecked)


def losing_to(exchange: str, version: str, **more: Any) -> LintReport:
    """Lint an export in which messages expire into an exchange that nothing names, or that nothing is bound to."""
    work = queue("work", message_ttl=1, dead_letter_exchange=exchange, dead_letter_routing_key="k")
    return linted(topology([work], {"dlx": "direct"}) | {"rabbit_version": version} | more)


@pytest.mark.parametrize(
    ("exchange", "version", "more", "said"),
    [
        ("inside", "4.3.6", HTTP, "omits internal exchanges: if exchange 'inside' is one"),
        ("inside", "4.3.2", HTTP, ""),
        ("inside", "4.0.5", HTTP, ""),
        ("inside", "4.0.5", {}, "omits internal exchanges: if exchange 'inside' is one"),  # rabbitmqctl wrote it
        ("dlx", "4.0.5", HTTP, "omits exclusive queues and what binds them: a client that has one behind"),
        ("dlx", "4.3.6", HTTP, ""),
        ("", "4.3.6", HTTP, "omits exclusive queues: a client that has queue 'k' gets dead letters"),
    ],
)  # fmt: skip
def test_what_an_export_leaves_out_is_assumed_not_to_take_dead_letters(
    exchange: str, version: str, more: dict[str, Any], said: str
) -> None:
    report = losing_to(exchange, version, **more)
    assert [each.severity for each in report.findings] == ["error"]
    assumed = [each for each in report.assumed if each.startswith(f"an export of RabbitMQ {version} omits")]
    assert len(assumed) == bool(said)
    assert said in "".join(assumed)


def test_no_exclusive_queue_is_assumed_in_place_of_one_that_is_there() -> None:
    """What 'work' holds in a circle goes to a queue of the export, which no client can have as well."""
    work = queue("work", queue_type="quorum", message_ttl=1, dead_letter_exchange="", dead_letter_routing_key="work",
                 dead_letter_strategy="at-least-once", overflow="reject-publish")  # fmt: skip
    report = linted(topology([work], {}) | {"rabbit_version": "4.3.6"} | HTTP)
    assert "held for ever" in report.findings[0].message
    assert not [each for each in report.assumed if "exclusive queues" in each]


def test_an_internal_exchange_with_an_alternate_one_by_policy_may_lose_nothing() -> None:
    policy = {"vhost": "/", "name": "rest", "pattern": "^inside$", "apply-to": "exchanges", "priority": 0,
              "definition": {"alternate-exchange": "dlx"}}  # fmt: skip
    missing, idle = losing_to("inside", "4.3.6", policies=[policy]).findings
    assert (missing.name, missing.severity) == ("missing-dlx", "warning")
    assert (idle.name, idle.severity) == ("policy-without-effect", "note")


@pytest.mark.parametrize("of", ["4.0", "4.3"])
def test_a_simulated_export_has_of_exclusive_queues_what_a_server_exports(of: str) -> None:
    with Simulator(of, only=True).broker(None, None) as broker:
        connection = pika.BlockingConnection(pika.URLParameters(broker.amqp_url))
        connection.channel().queue_declare("reader", exclusive=True)
        connection.channel().queue_bind("reader", "amq.fanout")
        document = broker.api("GET", "definitions")
        connection.close()
    assert document["queues"] == []
    assert [each["destination"] for each in document["bindings"]] == (["reader"] if of == "4.3" else [])


# -- what a release would not import -----------------------------------------------


def test_a_policy_from_before_an_upgrade_applies_as_far_as_it_is_known() -> None:
    policy = {"vhost": "/", "name": "ha", "pattern": "work", "apply-to": "all", "priority": 0,
              "definition": {"ha-mode": "all", "message-ttl": 1_000}}  # fmt: skip
    found = linted(topology([queue("work")]) | {"policies": [policy]})
    lost, refused = found.findings
    assert (lost.severity, lost.because) == (
        "error",
        "expired in 'work': message-ttl is 1000 (message-ttl by policy ha)",
    )
    assert refused.message == (
        "an import into RabbitMQ 4.3 refuses policy 'ha': it does not know 'ha-mode' (here without the refused part)."
    )


def test_a_binding_from_before_an_upgrade_routes() -> None:
    document = topology([queue("work", message_ttl=1)]) | {"bindings": [bound("amq.topic", "work", "#.a.#.b.#")]}
    lost, refused = linted(document).findings
    assert any("amq.topic" in str(step) for step in lost.history)
    assert "Topic binding key '#.a.#.b.#' uses 3 '#' wildcards, at most 2 are allowed" in refused.message


def test_a_closed_virtual_host_loses_what_it_has() -> None:
    closed = {"component": "vhost-limits", "name": "limits", "vhost": "/", "value": {"max-connections": 0}}
    report = linted(topology([queue("work", message_ttl=1)]) | {"parameters": [closed]})
    assert [each.severity for each in report.findings] == ["error"]
    assert "max-connections 0" in "".join(report.unchecked)


@pytest.mark.parametrize("kind", ["x-jms-topic", "x-federation-upstream"])
def test_an_exchange_of_a_plugin_is_not_checked_and_nothing_is_said_of_a_server_without_it(kind: str) -> None:
    later = {"vhost": "/", "name": "later", "type": kind, "durable": True, "auto_delete": False, "internal": False,
             "arguments": {}}  # fmt: skip
    work = queue("work", message_ttl=1, dead_letter_exchange="later", dead_letter_routing_key="k")
    document = topology([work, queue("dead")])
    report = linted(document | {"exchanges": [later], "bindings": [bound("later", "dead", "k")]})
    assert report.findings == ()
    assert "how exchange 'later' routes" in "".join(report.unchecked)


def test_a_policy_for_a_plugin_is_not_checked() -> None:
    policy = {"vhost": "/", "name": "far", "pattern": "^work$", "apply-to": "queues", "priority": 0,
              "definition": {"federation-upstream-set": "all"}}  # fmt: skip
    report = linted(topology([queue("work")]) | {"policies": [policy]})
    assert (report.findings, report.unchecked) == (
        (),
        ("what a plugin does with 'federation-upstream-set' in policy 'far'",),
    )


@pytest.mark.parametrize(
    "who",
    [
        {"permissions": [{"user": "gone", "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"}]},
        {"users": [{"name": "anna", "tags": []}]},
        {"users": [{"name": "anna", "password_hash": "removed", "tags": ""}]},
        {"queues": [{**queue("work", message_ttl=1), "vhost": "elsewhere"}]},
    ],
    ids=["permissions of nobody", "no hash", "a hash that is none", "an undeclared virtual host"],
)
def test_a_part_of_an_export_is_answered(who: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "definitions.json"
    path.write_text(json.dumps(topology([queue("work", message_ttl=1)]) | who))
    assert [main([command, str(path)]) for command in ("lint", "fuzz", "settings", "graph")] == [1, 1, 0, 0]
    assert main(["generate", "--definitions", str(path), "--events", "10", "--out", str(tmp_path / "out")]) == 0
    start_broker("4.3", definitions=path)


@pytest.mark.parametrize("key", ["dead", "other", "a.#"])
def test_no_loss_rests_on_the_guessed_type_of_an_internal_exchange(key: str) -> None:
    work = queue("work", message_ttl=1, dead_letter_exchange="inside")
    report = linted(topology([work, queue("dead")]) | {"bindings": [bound("inside", "dead", key)]})
    assert [each.name for each in report.findings if each.severity == "error"] == []
    assert "how exchange 'inside' routes, which is not declared" in "".join(report.unchecked)


def test_a_dead_letter_goes_to_a_queue_of_a_client_by_its_name() -> None:
    work = queue("work", message_ttl=1, dead_letter_exchange="", dead_letter_routing_key="amq.gen-AAAA")
    report = linted(topology([work]))
    assert report.findings == ()
    assert "what happens to messages in queue 'amq.gen-AAAA'" in "".join(report.unchecked)


def test_a_queue_with_an_argument_of_an_earlier_release_is_there(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "definitions.json"
    path.write_text(json.dumps(topology([queue("work", message_ttl=1, queue_master_locator="min-masters")])))
    assert [main([command, str(path)]) for command in ("lint", "fuzz")] == [1, 1]
    assert "it does not take 'x-queue-master-locator' (here without the refused part)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("properties", "words", "name", "fix"),
    [
        ({"auto_delete": True}, "cannot be auto-delete (here with", "auto-delete", "auto_delete false"),
        ({"durable": False}, "must be durable (here with", "non-durable", "durable true"),
        (
            {"durable": False, "auto_delete": True},
            "cannot be auto-delete",
            "auto-delete",
            "durable true and auto_delete false",
        ),
    ],
)
@pytest.mark.parametrize(("kind", "of"), [("quorum", "3.8"), ("quorum", "4.0"), ("quorum", "4.3"), ("stream", "4.3")])
def test_a_queue_with_properties_that_its_type_does_not_allow_keeps_its_arguments(
    kind: str, of: str, properties: dict[str, bool], words: str, name: str, fix: str
) -> None:
    arguments = {"x-queue-type": kind, "x-max-length-bytes": 9}
    if kind == "quorum":  # in this order: the key alone is refused
        arguments |= {"x-dead-letter-routing-key": "k", "x-dead-letter-exchange": "dlx"}
    work = {**queue("work"), **properties, "arguments": arguments}
    document = topology([work, queue("dead")], {"dlx": "fanout"}) | {"bindings": [bound("dlx", "dead")]}
    report = linted(document, of)
    (found,) = [each for each in report.findings if each.code == "DLX025"]
    assert [each for each in report.findings if each.severity == "error"] == []
    assert found.about.name == "work"
    assert f"{kind} queues {words}" in found.message
    assert f"invalid property '{name}' for queue 'work' in vhost '/'" in found.because
    assert found.fix is not None
    assert found.fix.text == f"set {fix}"
    snapshot = Snapshot(Definitions(document, "definitions"), release(of))
    (taken, _) = snapshot.document["queues"]
    assert taken == {**work, "vhost": "/", "durable": True, "auto_delete": False}
    assert snapshot.topologies["/"].queues["work"].arguments.items() >= arguments.items()


def test_a_trial_refuses_a_queue_with_a_property_that_no_release_allows_its_type() -> None:
    work = {**queue("work", queue_type="quorum"), "auto_delete": True}
    with pytest.raises(DefinitionsError, match="no RabbitMQ takes this: quorum queues cannot be auto-delete"):
        start_broker("4.3", definitions=topology([work]))


def test_what_is_refused_with_a_property_of_the_queue_is_told_as_well() -> None:
    work = {**queue("work", queue_type="quorum", max_priority=300, dead_letter_exchange="dlx"), "auto_delete": True}
    (found,) = [each for each in linted(topology([work], {"dlx": "fanout"})).findings if each.code == "DLX025"]
    assert "'x-max-priority'" in found.message
    assert "quorum queues cannot be auto-delete" in found.message


IMPOSSIBLE = topology([queue("work", message_ttl=1, max_priority=300)]) | {
    "policies": [{"vhost": "/", "name": "p", "pattern": "work", "apply-to": "all", "definition": {"max-length": "3"}}]
}


def test_what_no_release_takes_is_a_finding_of_every_question(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "definitions.json"
    path.write_text(json.dumps(IMPOSSIBLE))
    assert [main([command, str(path)]) for command in ("lint", "fuzz", "settings", "graph")] == [1, 1, 0, 0]
    start_broker("4.3", definitions=path, not_imported=lambda refused: None)


def test_a_question_about_a_log_is_answered_without_what_no_release_takes(tmp_path: Path, capsys: Capture) -> None:
    path, log = tmp_path / "definitions.json", tmp_path / "log"
    path.write_text(json.dumps(IMPOSSIBLE))
    definitions = ["--definitions", str(path)]
    assert main(["generate", *definitions, "--events", "60", "--out", str(log)]) == 0
    captures = [str(each) for each in log.glob("*.parquet")]
    asked = (["replay"], ["whatif", "--against", str(path)], ["watch", "--once"])
    capsys.readouterr()
    for command in asked:
        assert main([command[0], *captures, *definitions, *command[1:]]) == 0, capsys.readouterr()
        err = capsys.readouterr().err
        assert (
            "note: queues[0].arguments.x-max-priority of 'work': no RabbitMQ takes this, so it is left out here: "
            "invalid arg 'x-max-priority' for queue 'work' in vhost '/': 300 is more than 255\n"
        ) in err
        assert (
            "note: policies[0].definition.max-length of 'p': no RabbitMQ takes this, so it is left out here: \"3\" is"
            in err
        )


@pytest.mark.parametrize(
    ("arguments", "words", "server"),
    [
        ({"message_ttl": -1}, "-1 is less than 0", "{value_negative,-1}"),
        ({"expires": 0}, "it is 0, and must be more", "{value_zero,0}"),
        ({"expires": True}, "expected integer, got bool", ""),  # the server says the same
        ({"dead_letter_routing_key": "k"}, "it needs an x-dead-letter-exchange", ""),
        ({"overflow": "drop"}, "expected drop-head or reject-publish or reject-publish-dlx", ""),
        ({"max_age": "7"}, "expected a number above 0 and one of the units", "invalid_max_age"),
        ({"single_active_consumer": "yes"}, "a string does not fit", "unacceptable_type"),
    ],
)
def test_people_read_plain_words_and_the_server_s_beside_them(arguments: Any, words: str, server: str) -> None:
    kind = {"queue_type": "stream"} if "max_age" in arguments else {}
    (found, *_) = [
        each for each in linted(topology([queue("work", **arguments, **kind)])).findings if words in each.message
    ]
    assert server in found.because
    assert not server or "the server says" in found.because
    assert not {"<<", "{", "_age", "no_dlx"} & {part for part in ("<<", "{", "_age", "no_dlx") if part in found.message}


def test_values_of_policies_and_limits_are_told_in_plain_words() -> None:
    policy = {"vhost": "/", "name": "p", "pattern": "(", "apply-to": "all", "definition": {"max-length": {"a": "b"}}}
    limit = {"component": "vhost-limits", "name": "limits", "vhost": "/", "value": {"max-queues": "a"}}
    user = {"name": "anna", "tags": "", "password_hash": "", "limits": {"max-connections": "a"}}
    report = linted(topology([queue("work")]) | {"policies": [policy], "parameters": [limit], "users": [user]})
    told = {each.about.name: each.message for each in report.findings}
    assert 'policy \'p\': {"a": "b"} is not a valid maximum length; pattern should be' in told["p"]
    assert "missing closing parenthesis at character 1" in told["p"]
    assert 'actually was "a"' in told["limits"]
    assert 'actually was "a"' in told["anna"]


def test_what_an_import_refuses_of_users_is_found() -> None:
    everything = {"vhost": "/", "configure": ".*", "write": ".*", "read": ".*"}
    document = topology([queue("work")]) | {
        "users": [{"name": "anna", "tags": "", "password_hash": "removed!"}, {"name": "bert", "tags": ""}],
        "permissions": [
            {**everything, "user": "bert"},
            {**everything, "user": "carl"},
            {**everything, "user": "bert", "write": "("},
        ],
        "topic_permissions": [{"user": "dora", "vhost": "/", "exchange": "amq.topic", "write": ".*", "read": ".*"}],
    }  # fmt: skip
    report = linted(document)
    assert {(each.code, each.severity) for each in report.findings} == {("DLX025", "warning")}
    found = {str(each.about): each for each in report.findings}
    assert list(found) == [
        "permissions of user 'bert'",
        "permissions of user 'carl'",
        "topic permissions of user 'dora'",
        "user 'anna'",
    ]
    assert "password_hash is not base64" in found["user 'anna'"].message
    assert "user 'carl' is missing (left out here)" in found["permissions of user 'carl'"].message
    assert found["permissions of user 'carl'"].because == 'the server says: {no_such_user,<<"carl">>}'
    assert report.unchecked == ()


def test_what_no_release_takes_is_wrong_input_for_a_trial() -> None:
    with pytest.raises(DefinitionsError, match=r"queues\[0\]\.arguments\.x-max-priority: no RabbitMQ takes this"):
        import_definitions(Broker("4.3"), topology([queue("work", max_priority=300)]), 0)


@pytest.mark.parametrize(("strict", "status"), [(False, 0), (True, 65)], ids=["as a server's state", "as an import"])
def test_serve_has_what_the_server_has_or_refuses_as_it_does(
    strict: bool, status: int, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = {"vhost": "/", "name": "ha", "pattern": ".*", "apply-to": "all", "definition": {"ha-mode": "all"}}
    path = tmp_path / "definitions.json"
    path.write_text(json.dumps(topology([queue("work"), queue("amq.gen-1")]) | {"policies": [policy]}))
    served: list[Any] = []
    monkeypatch.setattr("simulator.cli.serve.asyncio.run", lambda serving: (served.append(1), serving.close()))
    flag = ["--strict-import"] if strict else []
    assert main(["serve", "--definitions", str(path), "--release", "4.3", *flag]) == status
    err = capsys.readouterr().err
    assert len(served) == (not strict)
    if strict:
        assert "policies[0] 'ha'" in err
    else:
        assert (
            "note: an import refuses policies[0] 'ha': it does not know 'ha-mode' (the broker has the rest of it)"
            in err
        )
        assert "queues[1] 'amq.gen-1': an import leaves it out silently: its name begins with amq." in err


# -- files as people write them -----------------------------------------------------


def told(text: str, path: Path, capsys: Capture, *, of: str = "4.3") -> tuple[int, str]:
    path.write_text(text)
    status = main(["lint", str(path), "--release", of])
    out, err = capsys.readouterr()
    return status, out + err


def test_what_only_older_servers_read_as_json_is_answered_and_told(tmp_path: Path, capsys: Capture) -> None:
    text = '{"vhosts": [{"name": "/"}], // one\n"queues": [{"vhost": "/", "name": \'work\', "durable": true,}]}'
    assert told(text, tmp_path / "definitions.json", capsys, of="3.10")[0] == 0
    status, said = told(text, tmp_path / "definitions.json", capsys)
    assert status == 1
    assert "line 2, column 58: the file has trailing commas: servers take them until 3.10, and refuse" in said
    assert main(["serve", "--definitions", str(tmp_path / "definitions.json"), "--strict-import"]) == 65
    assert "from 3.11 on" in capsys.readouterr().err


@pytest.mark.parametrize(("version", "status"), [("3.10.8", 0), ("4.3.6", 1)])
def test_which_of_equal_keys_counts_is_told_and_is_that_of_the_exporting_server(
    version: str, status: int, tmp_path: Path, capsys: Capture
) -> None:
    first, last = (json.dumps([queue("work", message_ttl=1)]), json.dumps([queue("work")]))
    text = f'{{"rabbit_version": "{version}", "queues": {first}, "queues": {last}}}'
    found, said = told(text, tmp_path / "definitions.json", capsys)
    assert found == status
    assert "a key stands twice in an object: servers take the last one until 3.10, the first from 3.11 on" in said


def test_a_binding_without_a_key_has_the_key_undefined() -> None:
    work = queue("work", message_ttl=1, dead_letter_exchange="dlx", dead_letter_routing_key="")
    binding = {name: value for name, value in bound("dlx", "dead").items() if name != "routing_key"}
    report = linted(topology([work, queue("dead")], {"dlx": "direct"}) | {"bindings": [binding]})
    assert [each.name for each in report.findings] == ["unroutable-dead-letter"]


def test_parameters_of_plugins_are_not_checked() -> None:
    shovel = {"vhost": "/", "component": "shovel", "name": "s", "value": {"src-uri": "amqp://"}}
    report = linted(topology([queue("work")]) | {"parameters": [shovel]})
    assert (report.findings, report.unchecked) == ((), ("what a plugin does with parameter 's' of shovel",))


# -- random states of servers, with clients ----------------------------------------


def ask_all(export: Path, folder: Path, of: str) -> None:
    """Ask every question about an export; each is answered."""
    rules = ["--release", of]
    ask: Callable[..., int] = lambda *words: main([str(word) for word in words])  # noqa: E731
    for command in (["lint"], ["settings"], ["graph"], ["fuzz", "--seconds", "0.3"]):
        assert ask(command[0], export, *command[1:], *rules) in (0, 1), (command, export.read_text())
    assert ask("explain", export, "--publish", "", "work", *rules) in (0, 1)
    assert ask("upgrade", export, "--from", of, "--to", "4.3") in (0, 1)
    log = folder / "log"
    assert ask("generate", "--definitions", export, "--events", "60", "--out", log, *rules) == 0
    captures = sorted(log.glob("*.parquet"))
    for command in ("replay", "whatif"):
        assert ask(command, *captures, "--definitions", export, *rules) in (0, 1), (command, export.read_text())


def check_states(broker: Broker_, folder: Path) -> None:
    for seed in range(STATES):
        state = RandomState(seed, broker.amqp_url, broker.api, broker.vhost)
        try:
            state.make()
            export = folder / f"{seed}.json"
            vhost = quote(broker.vhost, safe="")
            export.write_text(json.dumps(broker.api("GET", f"definitions/{vhost}")))
            (folder / str(seed)).mkdir()
            ask_all(export, folder / str(seed), broker.release)
        finally:
            state.undo_limits()
            state.connection.close()


@pytest.mark.slow
@pytest.mark.parametrize("of", ["3.8", "3.12", "4.0", "4.3"])
def test_every_state_of_a_simulated_server_is_answered(of: str, tmp_path: Path, capsys: Capture) -> None:
    with Simulator(of, only=True).broker(None, None) as broker:
        check_states(broker, tmp_path)
        assert main(["lint", broker.management_url]) in (0, 1)


def test_every_state_of_a_running_server_is_answered(dlx_broker: Broker_, tmp_path: Path, capsys: Capture) -> None:
    check_states(dlx_broker, tmp_path)
