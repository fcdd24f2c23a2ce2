"""Lint: each rule finds what it is about and nothing else, and what it calls lost is lost."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import click
import pika
import pytest

import dlx
from dlx.releases import RELEASES, release
from simulator.analysis.findings import Finding
from simulator.analysis.lint.linting import LintReport, lint
from simulator.analysis.lint.rule import RULES, LintRule
from simulator.analysis.snapshot import Snapshot
from simulator.cli.main import cli
from simulator.definitions import Definitions, DefinitionsError, parse_definitions, read_definitions
from simulator.scenario.properties.property_registry import Lossless
from simulator.scenario.trial import Trial

EXAMPLES = Path(__file__).parent / "lint_examples"
# Streams take dead letters from the release on that the table of releases names.
OTHER_RELEASE = {
    "stream-loses-dead-letters": "3.10",
    # The delayed message exchange does not start on 4.3, which is a finding of its own.
    "delayed-exchange-with-alternate": "4.0",
    "dead-letters-delayed-once": "4.0",
}
ALSO = {"retry-reaches-others": {"endless-retry"}, "full-queues-wait-for-each-other": {"endless-retry"}}


def linted(rule: LintRule, suffix: str = "") -> LintReport:
    file = EXAMPLES / f"{rule.name}{suffix}.json"
    return lint(read_definitions(file), release(OTHER_RELEASE.get(rule.name, "4.3")))


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.name)
def test_each_rule_finds_its_example_and_nothing_else(rule: LintRule, monkeypatch: pytest.MonkeyPatch) -> None:
    if rule.name == "not-fully-checked":  # its example would be large
        monkeypatch.setattr("simulator.analysis.walk.PLACES_MAX", 1)
        monkeypatch.setattr("simulator.analysis.walk.PLACES_PER_QUEUE", 0)
    found = linted(rule).findings
    assert {each.name for each in found} == {rule.name} | ALSO.get(rule.name, set())
    assert all(each.message.endswith((".", "?")) and each.because and each.fix.text for each in found)


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.name)
def test_no_rule_finds_its_near_miss(rule: LintRule) -> None:
    assert rule.name not in {each.name for each in linted(rule, ".near").findings}


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.name)
def test_an_error_has_a_history_that_loses_a_message(rule: LintRule) -> None:
    for each in linted(rule).findings:
        assert (each.severity == "error") == bool(each.history)
        if each.history:
            trial = Trial(EXAMPLES / f"{rule.name}.json", release=linted(rule).release, properties=[Lossless()])
            with pytest.raises(AssertionError, match="lossless is broken"):
                trial.play(each.history)


@pytest.mark.parametrize(("name", "found"), [("wait", True), ("backoff", True), ("delay", False)])
def test_a_retry_queue_is_known_by_its_name(name: str, found: bool) -> None:
    """A queue that delays may take what publishers send to it, and nothing else."""
    text = (
        (EXAMPLES / "retry-queue-unused.json")
        .read_text(encoding="utf-8")
        .replace("downloads-retry", f"downloads-{name}")
    )
    findings = lint(parse_definitions(text.encode(), "file"), release("4.3")).findings
    assert ("retry-queue-unused" in {each.name for each in findings}) == found


def at_least_once(name: str, to: str, **arguments: Any) -> dict[str, Any]:
    return queue(name, queue_type="quorum", delivery_limit=-1, dead_letter_exchange="", dead_letter_routing_key=to,
                 dead_letter_strategy="at-least-once", overflow="reject-publish", **arguments)  # fmt: skip


def told_by(code: str, *queues: dict[str, Any]) -> list[str]:
    return [each.message for each in found(*queues) if each.code == code]


@pytest.mark.parametrize(
    ("dead", "parking"),
    [({"max_length": 5}, True), ({"max_length": 5, "message_ttl": 1_000}, False), ({"max_length_bytes": 5}, True)],
)
def test_what_a_full_queue_refuses_is_held(dead: dict[str, int], parking: bool) -> None:
    """One finding for all the queues whose dead letters it takes."""
    (only,) = told_by(
        "DLX037",
        *(at_least_once(f"work-{number}", "dead") for number in range(5)),
        queue("dead", overflow="reject-publish", **dead),
    )
    assert only.startswith(
        "while 'dead' is full it refuses the dead letters of 'work-0', 'work-1', 'work-2' and 2 more"
    )
    assert "they are held where they died, and 32 of them hold up all others." in only
    assert only.endswith(" It is a parking queue: it stays full until messages are taken out of it.") == parking


@pytest.mark.parametrize(
    ("limit", "says"),
    [
        ({"max_length": 0}, "'dead' takes no message: "),
        ({"max_length_bytes": 0}, "'dead' takes no message that has a body: "),
        ({"max_length_bytes": 0, "queue_type": "quorum"}, "while 'dead' is full it refuses "),
    ],
)
def test_a_classic_queue_with_a_limit_of_0_is_always_full(limit: dict[str, Any], says: str) -> None:
    (only,) = told_by("DLX037", at_least_once("work", "dead"), queue("dead", overflow="reject-publish", **limit))
    assert only.startswith(says)
    assert ("for ever" in only) is (limit.get("queue_type") is None) is not only.endswith("taken out of it.")


def test_a_queue_without_a_limit_refuses_no_dead_letters() -> None:
    assert told_by("DLX037", at_least_once("work", "dead"), queue("dead", overflow="reject-publish")) == []
    assert told_by("DLX037", at_least_once("work", "dead"), queue("dead", max_length=5)) == []


def test_full_queues_that_dead_letter_into_each_other_are_one_finding() -> None:
    circle = [at_least_once(name, to, max_length=5) for name, to in ("ab", "bc", "ca")]
    (told,) = told_by("DLX038", *circle)
    assert told.startswith("'a', 'b' and 'c' dead-letter at least once into each other")
    assert told_by("DLX037", *circle) == []
    assert told_by("DLX038", *circle[:2], at_least_once("c", "a")) == []
    (own,) = told_by("DLX038", at_least_once("a", "a", max_length=5))
    assert own.startswith("'a' dead-letters at least once into itself")


REJECTED_TWICE = {"x-death": [{"queue": "orders", "reason": "rejected", "count": 2}]}


def test_what_documents_and_fixes_recommend_runs() -> None:
    """In backticks are commands of dlx with their options, and Python for the properties of a message."""
    documents = [text for each in RULES.values() for text in (each.document.why, each.document.fix)]
    fixes = [each.fix.text for rule in RULES.values() for each in linted(rule).findings]
    recommended = set(re.findall(r"`(.+?)`", "\n".join([*documents, *fixes])))
    commands = {each for each in recommended if each.startswith("dlx ")}
    assert "dlx fuzz" in commands
    for command in commands:
        _, name, *options = command.split()
        known = {option for parameter in cli.get_command(click.Context(cli), name).params for option in parameter.opts}
        assert set(options) <= known
    properties = pika.BasicProperties(headers=REJECTED_TWICE)
    assert {line: eval(line, {"dlx": dlx, "properties": properties}) for line in recommended - commands} == {
        "dlx.attempts(properties)": 2
    }


TOPOLOGIES = Path("examples/topologies")
# What lint says of the topologies that users reported, and of sound ones.
SAID = {
    "broken/argument-hides-policy": {"missing-dlx", "argument-hides-policy"},
    "broken/at-least-once-without-reject-publish": {"unroutable-dead-letter", "at-least-once-ineffective"},
    "broken/default-delivery-limit": {"no-dlx-on-rejecting", "default-delivery-limit"},
    "broken/delay-behind-a-longer-one": {"head-of-line-ttl"},
    "broken/exchange-without-bindings": {"unroutable-dead-letter"},
    "broken/full-dead-letter-queue": {"reject-publish-on-dead-letter-queue"},
    "broken/full-queue-refuses": set(),  # publishers with confirms know
    "broken/held-for-ever": {"unroutable-dead-letter"},
    "broken/key-not-covered": {"unroutable-dead-letter"},
    "broken/ladder-cycle": {"automatic-cycle"},
    "broken/length-limit-alone": {"no-dlx-on-rejecting"},
    "broken/own-dead-letter-exchange": {"self-dlx"},
    "broken/retry-queue-expires": {"queue-removed-with-messages", "endless-retry"},
    "sound/by-policy-alone": {"policy-without-effect"},
    "sound/length-limit-keeps-everything": {"unbounded-dead-letter-queue"},
    "sound/reject-then-ttl": {"endless-retry"},
    "sound/three-delays-and-parking": {"endless-retry"},
    "sound/unlimited-quorum": {"no-dlx-on-rejecting"},
}


@pytest.mark.parametrize(
    "name",
    sorted(
        f"{each.parent.name}/{each.stem}" for kind in ("broken", "sound") for each in TOPOLOGIES.glob(f"{kind}/*.json")
    ),
)
def test_reported_topologies_are_called_what_they_are(name: str) -> None:
    report = lint(read_definitions(TOPOLOGIES / f"{name}.json"), release("4.3"))
    assert {each.name for each in report.findings} == SAID.get(name, set())
    if name.startswith("sound"):
        assert "error" not in {each.severity for each in report.findings}


def queue(name: str, **arguments: Any) -> dict[str, Any]:
    arguments = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
    return {"name": name, "vhost": "/", "durable": True, "auto_delete": False, "arguments": arguments}


def exchange(name: str, kind: str) -> dict[str, Any]:
    return {"name": name, "vhost": "/", "type": kind, "durable": True, "auto_delete": False, "internal": False,
            "arguments": {}}  # fmt: skip


def bound(source: str, destination: str) -> dict[str, Any]:
    return {"source": source, "vhost": "/", "destination": destination, "destination_type": "queue",
            "routing_key": "", "arguments": {}}  # fmt: skip


def found(*queues: dict[str, Any], **sections: Any) -> list[Finding]:
    document = {"vhosts": [{"name": "/"}], "queues": list(queues), **sections}
    return list(lint(Definitions(document, "definitions"), release("4.3")).findings)


def names(*queues: dict[str, Any], **sections: Any) -> set[str]:
    return {each.name for each in found(*queues, **sections)}


@pytest.mark.parametrize("kind", ["x-delayed-message", "x-consistent-hash"])
def test_an_exchange_of_a_plugin_is_not_called_missing(kind: str) -> None:
    sections = {"exchanges": [exchange("dlx", kind)], "bindings": [bound("dlx", "dead")]}
    assert "missing-dlx" not in names(queue("work", dead_letter_exchange="dlx"), queue("dead"), **sections)


def test_a_refused_queue_is_not_called_missing() -> None:
    work = queue("work", dead_letter_exchange="", dead_letter_routing_key="dead")
    assert names(work, queue("dead", max_priority=300)) == {"refused-object"}
    assert names(work, queue("dead", queue_type="odd")) == {"refused-object"}


def test_a_queue_of_a_refused_type_keeps_its_other_arguments() -> None:
    refused, lost = found(queue("jobs", queue_type="quorom", message_ttl=1_000, dead_letter_exchange="nope"))
    assert (lost.code, lost.severity, lost.about.name) == ("DLX001", "error", "jobs")
    assert refused.code == "DLX025"
    assert "unsupported queue type 'quorom' (here without the refused part)" in refused.message


def test_the_refusal_of_an_object_comes_before_what_else_is_found_about_it_and_other_losses_before_both() -> None:
    lost, refused, of_refused = found(queue("a", message_ttl=1), queue("b", queue_type="qurum", max_length=5))
    assert (lost.about.name, refused.about.name, of_refused.about.name) == ("a", "b", "b")
    assert (refused.code, of_refused.severity) == ("DLX025", "error")
    limited = found(queue("b", queue_type="classic", delivery_limit=5, max_length=5))
    assert [each.name for each in limited] == ["delivery-limit-ignored", "no-dlx-on-rejecting"]


def test_a_refused_object_fails_the_whole_import() -> None:
    (refused,) = found(queue("work"), users=[{"name": "anna", "password_hash": "not base64!", "tags": ""}])
    assert refused.message.startswith("an import into RabbitMQ 4.3 fails, since it refuses user 'anna': ")
    assert "fails the whole import" in RULES["DLX025"].document.why


def test_of_a_refused_queue_no_consequence_is_told() -> None:
    (only,) = found(queue("work", queue_type="classic", delivery_limit=5))
    assert only.name == "delivery-limit-ignored"
    assert only.message.startswith(
        "a server of 4.3 refuses 'work', and an import fails: invalid arg 'x-delivery-limit'"
    )
    assert only.message.endswith("of queue type rabbit_classic_queue.")


def test_what_an_import_refuses_is_a_finding_and_the_rest_is_answered() -> None:
    policy = {"vhost": "/", "name": "ttl", "pattern": ".*", "apply-to": "queues", "priority": 0,
              "definition": {"message-ttl": 1}}  # fmt: skip
    wrong = {**policy, "name": "typo", "pattern": "^none$", "definition": {"message-tll": 1}}
    lost, refused = found(queue("work"), policies=[policy, wrong])
    assert (lost.name, refused.name, str(refused.about)) == ("no-dlx-on-rejecting", "refused-object", "policy 'typo'")
    assert "it does not know 'message-tll'" in refused.message
    told = names(queue("work"), {**queue("elsewhere", message_ttl=1), "vhost": "nowhere"})
    assert told == {"no-dlx-on-rejecting", "undeclared-name"}


def test_names_that_are_slips_of_the_pen_are_told_with_those_that_are_meant() -> None:
    work = queue("work", dead_leter_exchange="dlx")
    section, argument = found(work, exchanges=[exchange("dlx", "fanout")], binding=[bound("dlx", "work")])[::-1]
    assert (
        argument.message
        == "servers ignore argument x-dead-leter-exchange of 'work'; did you mean x-dead-letter-exchange?"
    )
    assert section.message == "servers ignore section 'binding'; did you mean 'bindings'?"
    with pytest.raises(DefinitionsError, match="Of 'queus': did you mean 'queues'"):
        parse_definitions(b'{"queus": []}', "definitions.json")
    policy = {"vhost": "/", "name": "p", "pattern": ".*", "apply-to": "all", "priority": 0}
    (refused,) = found(queue("work"), policies=[policy | {"definition": {"mesage-ttl": 5}}])
    assert "it does not know 'mesage-ttl'; did you mean 'message-ttl'?" in refused.message


@pytest.mark.parametrize("of", RELEASES)
def test_of_equal_names_the_first_queue_and_the_last_policy_count(of: str) -> None:
    policy = {"vhost": "/", "name": "p", "pattern": ".*", "apply-to": "queues", "priority": 0}
    document = {
        "vhosts": [{"name": "/"}],
        "queues": [queue("work", max_length=1, overflow="reject-publish"), queue("work", max_length=2)],
        "policies": [policy | {"definition": {"max-length-bytes": size}} for size in (3, 4)],
    }
    definitions = Definitions(document, "definitions")
    topologies = (definitions.topology("/"), Snapshot(definitions, release(of)).topologies["/"])
    for topology in topologies:
        assert topology.queues["work"].arguments["x-max-length"] == 1
        assert [each.definition for each in topology.policies] == [{"max-length-bytes": 4}]
    told = [each.message for each in lint(definitions, release(of)).findings if each.code == "DLX030"]
    assert told == [
        "the definitions have policy 'p' 2 times: servers take the last one.",
        "the definitions have queue 'work' 2 times: servers take the first one.",
    ]


def test_an_auto_delete_queue_loses_what_it_has() -> None:
    (only,) = found({**queue("work"), "auto_delete": True})
    assert (only.name, only.severity) == ("queue-removed-with-messages", "error")


def test_a_ttl_does_not_save_what_is_published_just_before_the_queue_expires() -> None:
    sections = {"exchanges": [exchange("dlx", "fanout")], "bindings": [bound("dlx", "dead")]}
    work = queue("work", expires=10_000, message_ttl=1_000, dead_letter_exchange="dlx")
    (only,) = found(work, queue("dead"), **sections)
    assert (only.name, only.severity) == ("queue-removed-with-messages", "error")


def test_dead_letters_that_are_held_for_ever_are_told() -> None:
    work = queue("work", queue_type="quorum", dead_letter_exchange="dlx", dead_letter_strategy="at-least-once",
                 overflow="reject-publish", delivery_limit=5)  # fmt: skip
    (only,) = found(work, exchanges=[exchange("dlx", "fanout")])
    assert (only.name, only.severity, only.held) == ("unroutable-dead-letter", "error", True)
    assert only.message.endswith("is held in 'work' until a queue is. 32 of them hold up all others.")
    (missing,) = found(work)
    assert (missing.name, missing.severity, missing.held) == ("missing-dlx", "error", True)
    assert "every dead letter is held in 'work' until it does" in missing.message


HELD = EXAMPLES.parent / "held_examples"
HELD_CASES = [
    (
        "key-of-no-queue",
        "4.3",
        ["DLX003", "DLX010"],
        "behind exchange 'deliver': they are held in 'level'",
    ),
    (
        "cycle",
        "3.10",
        ["DLX004", "DLX004"],
        "without a rejection on the way ('wait' → 'orders' → 'wait')",
    ),
    ("cycle", "4.3", ["DLX004", "DLX004"], "each stays in 'orders', held for ever. 32 of them hold up all others."),
    ("own-queue-and-another", "3.10", ["DLX006", "DLX004"], "RabbitMQ 3.10 does not count that it has taken them"),
    ("own-queue-and-another", "4.3", ["DLX006"], "a rejected message loops for ever"),
]


@pytest.mark.parametrize(("name", "of", "codes", "says"), HELD_CASES, ids=lambda value: str(value)[:25])
def test_what_is_held_for_ever_is_an_error_with_its_cause_and_a_history_that_holds_it(
    name: str, of: str, codes: list[str], says: str
) -> None:
    file = HELD / f"{name}.json"
    first, *others = lint(read_definitions(file), release(of)).findings
    assert [first.code, *(each.code for each in others)] == codes
    assert says in first.message
    assert "bind a queue" not in first.fix.text
    assert first.held == bool(first.history) == (first.severity == "error")
    if first.history:
        trial = Trial(file, release=of)
        trial.play(first.history)
        held = trial.queue(first.about.name, first.about.vhost)
        assert held is not None
        assert len(held.in_hand) == 1
        trial.wait(600_000)
        assert len(held.in_hand) == 1


def test_what_loses_every_message_comes_before_what_only_some_keys_lose_and_that_before_what_is_held() -> None:
    queues = [
        queue("c", dead_letter_exchange="gone"),  # DLX001
        queue("b", dead_letter_exchange="dlx"),  # some keys are bound
        queue("a", queue_type="quorum", dead_letter_exchange="gone", dead_letter_strategy="at-least-once",
              overflow="reject-publish", delivery_limit=5),
        queue("d", max_length=4),  # takes more actions
    ]  # fmt: skip
    sections = {
        "exchanges": [exchange("in", "topic"), exchange("dlx", "direct")],
        "bindings": [{**bound("in", "b"), "routing_key": "#"}, {**bound("dlx", "dead"), "routing_key": "key"}],
    }
    told = [each for each in found(*queues, queue("dead"), **sections) if each.severity == "error"]
    assert [each.about.name for each in told] == ["c", "d", "b", "a"]


def test_a_fix_names_the_policy_that_applies() -> None:
    policy = {"vhost": "/", "name": "ttl", "pattern": ".*", "apply-to": "queues", "priority": 10,
              "definition": {"message-ttl": 1_000}}  # fmt: skip
    (only,) = found(queue("work"), policies=[policy])
    assert only.fix.text.startswith("in policy ttl, which applies to 'work': ")


@pytest.mark.parametrize(
    ("section", "fix"), [("operator_policies", "component operator_policy"), ("shovels", "take shovels out")]
)
def test_a_section_of_objects_that_no_server_reads_is_told(section: str, fix: str) -> None:
    given = {"name": "op", "vhost": "/", "pattern": ".*", "definition": {"max-length": 1}}
    (only,) = found(queue("work"), **{section: [given]})
    assert (only.code, str(only.about)) == ("DLX029", f"section '{section}'")
    assert only.message.startswith(f"servers ignore section '{section}': ")
    assert fix in only.fix.text
    assert found(queue("work"), tags=["a"], product_name="RabbitMQ", notes=["of ours"]) == []


def test_many_queues_that_lead_to_each_other_end_in_time_and_without_a_green() -> None:
    number = 9
    queues = [queue(f"q{place}", message_ttl=1_000, dead_letter_exchange="dlx") for place in range(number)]
    bindings = [bound("dlx", f"q{place}") for place in range(number)]
    said = names(*queues, exchanges=[exchange("dlx", "fanout")], bindings=bindings)
    assert said >= {"self-dlx", "automatic-cycle"}


def test_a_misspelt_field_is_named_with_the_right_one() -> None:
    queue = {"name": "q", "vhost": "/", "durabel": True, "auto_delete": False, "argument": {"x-message-ttl": 5}}
    definitions = Definitions({"vhosts": [{"name": "/"}], "queues": [queue]}, "definitions.json")
    said = [each.message for each in lint(definitions, release("4.3")).findings if each.code == "DLX029"]
    assert said == [
        "servers ignore field 'durabel' of queue 'q'; did you mean 'durable'?",
        "servers ignore field 'argument' of queue 'q'; did you mean 'arguments'?",
    ]


def test_misspelt_keys_of_a_policy_are_each_named_with_the_right_one() -> None:
    definition = {"max-lenght": 5, "dead-leter-exchange": "d"}
    policy = {"vhost": "/", "name": "p", "pattern": ".*", "apply-to": "queues", "priority": 0, "definition": definition}
    definitions = Definitions({"vhosts": [{"name": "/"}], "policies": [policy]}, "definitions.json")
    (found,) = lint(definitions, release("4.3")).findings
    assert "did you mean 'max-length' and 'dead-letter-exchange'?" in found.message


def test_one_operator_policy_that_types_of_queues_do_not_support_is_one_finding() -> None:
    value = {"pattern": ".*", "apply-to": "queues", "priority": 0, "definition": {"delivery-limit": 3}}
    operator = {"vhost": "/", "component": "operator_policy", "name": "op", "value": value}
    (only,) = found(queue("a", queue_type="stream"), queue("b", queue_type="stream"), parameters=[operator])
    assert str(only.about) == "operator policy 'op'"
    assert only.message == (
        "operator policy 'op' does not apply to 'a', 'b' at all, none of its keys: stream queues do not support "
        "delivery-limit."
    )
    (only,) = found(queue("a"), queue("b", queue_type="stream"), parameters=[operator])
    assert only.message.endswith("Messages that crash their consumer come back for ever.")


def test_an_exchange_without_a_type_is_told_as_one() -> None:
    no_type = exchange("e", "direct")
    del no_type["type"]
    (refused,) = found(queue("work"), exchanges=[no_type])
    assert "exchange 'e': the field type is missing" in refused.message


def test_what_servers_say_is_quoted_without_the_escapes_of_their_answers() -> None:
    policy = {"vhost": "/", "name": "p", "pattern": "work", "apply-to": "all", "definition": {"ha-mode": "all"}}
    document = {"vhosts": [{"name": "/"}], "queues": [queue("work")], "policies": [policy]}
    (refused,) = lint(Definitions(document, "definitions"), release("4.0")).findings
    assert refused.because == (
        'the server says: Validation failed [{<<"ha-mode">>,<<"all">>}] are not recognised policy settings (//p)'
    )


def test_a_queue_that_an_import_leaves_out_by_its_name_is_told() -> None:
    document = {"vhosts": [{"name": "/"}], "queues": [queue("amq.gen-X"), queue("work")]}
    told = [each for each in lint(Definitions(document, "definitions"), release("4.3")).assumed if "import" in each]
    assert told == [
        "queue 'amq.gen-X' is there, as on the server that exported it: an import leaves it out silently: its "
        "name begins with amq."
    ]


def test_a_way_back_that_reaches_the_queues_of_other_consumers_is_told_with_them() -> None:
    told = [each for each in linted(RULES["DLX032"]).findings if each.code == "DLX032"]
    assert [each.about.name for each in told] == ["stock.retry"]
    assert "come to 'mail', too" in told[0].message
    assert "to the default exchange, with routing key 'stock'" in told[0].fix.text


def headers_binding(**arguments: str) -> Finding | None:
    item = {**bound("h", "late"), "arguments": {key.replace("_", "-"): value for key, value in arguments.items()}}
    told = found(queue("late"), exchanges=[exchange("h", "headers")], bindings=[item])
    return next((each for each in told if each.code == "DLX034"), None)


def test_a_binding_whose_x_arguments_are_not_compared_says_what_it_takes_and_how_to_compare_them() -> None:
    every = headers_binding(x_match="all", x_first_death_reason="expired")
    none, some = headers_binding(x_match="any", x_reason="a"), headers_binding(x_reason="a", kind="b")
    assert every is not None
    assert none is not None
    assert some is not None
    assert "compares nothing: x-match=all passes over x- arguments (all-with-x does not)" in every.message
    assert every.message.endswith("so it takes every message.")
    assert every.about.name == "h → late"
    assert "with x-match=all-with-x" in every.fix.text
    assert none.message.endswith("so it takes no message.")
    assert "does not compare x-reason: x-match=all passes" in some.message
    assert headers_binding(x_match="any-with-x", x_reason="a") is None
    assert headers_binding(x_match="all") is None


def test_a_binding_that_the_release_refuses_compares_nothing_and_is_told_once() -> None:
    item = {**bound("h", "late"), "arguments": {"x-match": "all-with-x", "x-first-death-reason": "expired"}}
    document = {"vhosts": [{"name": "/"}], "queues": [queue("late")], "exchanges": [exchange("h", "headers")],
                "bindings": [item]}  # fmt: skip
    told = lint(Definitions(document, "definitions"), release("3.9")).findings
    assert [each.code for each in told] == ["DLX025"]


def test_a_headers_exchange_takes_what_is_published_by_queue_name_as_before() -> None:
    item = {"arguments": {"x-match": "all", "kind": "mail"}}
    sections = {
        "exchanges": [exchange("in", "headers"), exchange("dlx", "headers")],
        "bindings": [{**bound("in", "mail"), **item}, {**bound("dlx", "dead"), **item}],
    }
    assert names(queue("mail", dead_letter_exchange="dlx"), queue("dead"), **sections) == set()


def test_what_is_lost_only_after_a_publish_by_queue_name_is_one_note_for_an_exchange() -> None:
    work = [queue(name, dead_letter_exchange="dlx") for name in ("a", "b", "c", "d", "e")]
    sections = {
        "exchanges": [exchange("in", "topic"), exchange("dlx", "topic")],
        "bindings": [{**bound("in", each["name"]), "routing_key": "key"} for each in work]
        + [{**bound("dlx", "dead"), "routing_key": "key"}],
    }
    (only,) = found(*work, queue("dead"), **sections)
    assert (only.code, only.severity, str(only.about)) == ("DLX036", "note", "exchange 'dlx'")
    assert only.message.endswith("routes key 'a' to no queue; so it is with 'b', 'c', 'd' and 1 more.")
    sections["bindings"][0]["routing_key"] = "#"  # now other keys are lost in 'a' as well
    told = found(*work, queue("dead"), **sections)
    assert [(each.code, "'a'" in each.message) for each in told] == [("DLX003", True), ("DLX036", False)]


def test_a_fix_names_a_few_of_many_keys_and_has_them_all() -> None:
    work = [queue(name, dead_letter_exchange="dlx") for name in ("a", "b", "c", "d", "e")]
    keys = [
        (source, to, f"key.{each['name']}") for each in work for source, to in (("in", each["name"]), ("dlx", "dead"))
    ]
    sections = {
        "exchanges": [exchange("in", "direct"), exchange("dlx", "direct")],
        "bindings": [{**bound(source, to), "routing_key": key} for source, to, key in keys],
    }
    (only,) = found(*work, queue("dead"), **sections)
    assert only.fix.text == "bind queue 'dead' to exchange 'dlx' for routing key 'a' and 'b' and 'c' and 2 more"
    assert [each.item["routing_key"] for each in only.fix.changes] == ["a", "b", "c", "d", "e"]


def test_a_retry_queue_that_publishers_declare_for_each_delay_is_no_forgotten_one() -> None:
    back = {"message_ttl": 5_000, "dead_letter_exchange": "", "dead_letter_routing_key": "orders"}
    (only,) = found(queue("orders"), queue("orders.retry", **back))
    assert (only.code, only.severity, only.about.name) == ("DLX035", "note", "orders")
    assert only.fix.text.endswith("set dead-letter-exchange to '' and dead-letter-routing-key to 'orders.retry'")
    assert "DLX035" not in {each.code for each in found(queue("orders"), queue("orders.retry", expires=9_000, **back))}
    assert names(queue("orders"), queue("bills.retry", **back)) == set()


@pytest.mark.parametrize(
    ("kind", "key", "fix"),
    [
        ("direct", "again", "'' and dead-letter-routing-key to 'orders.retry'"),
        ("topic", "again.#", "'' and dead-letter-routing-key to 'orders.retry'"),
        ("topic", "#", "'wait', which leads to 'orders.retry'"),
        ("fanout", "again", "'wait', which leads to 'orders.retry'"),
    ],
)
def test_an_exchange_that_leads_to_the_retry_queue_is_named_where_it_takes_all_keys(
    kind: str, key: str, fix: str
) -> None:
    back = {"message_ttl": 5_000, "dead_letter_exchange": "", "dead_letter_routing_key": "orders"}
    sections = {
        "exchanges": [exchange("wait", kind)], "bindings": [{**bound("wait", "orders.retry"), "routing_key": key}]
    }  # fmt: skip
    (only,) = found(queue("orders"), queue("orders.retry", **back), **sections)
    assert only.fix.text.endswith(f"set dead-letter-exchange to {fix}")


def test_a_policy_that_another_one_beats_everywhere_is_told_and_one_for_later_queues_is_a_note() -> None:
    def policy(name: str, pattern: str, priority: int) -> dict[str, Any]:
        return {"vhost": "/", "name": name, "pattern": pattern, "apply-to": "queues", "priority": priority,
                "definition": {"max-length-bytes": 5}}  # fmt: skip

    policies = [policy("first", "^work$", 9), policy("second", ".*", 0), policy("later", "^later", 0)]
    told = {each.about.name: each.severity for each in found(queue("work", overflow="reject-publish"),
            policies=policies)}  # fmt: skip
    assert told == {"second": "warning", "later": "note"}


def test_an_operator_policy_that_overrules_many_queues_is_one_finding() -> None:
    value = {"pattern": ".*", "apply-to": "queues", "priority": 0, "definition": {"max-length-bytes": 3}}
    operator = {"vhost": "/", "component": "operator_policy", "name": "op", "value": value}
    queues = [queue(name, max_length_bytes=9, overflow="reject-publish") for name in ("a", "b", "c")]
    (only,) = found(*queues, parameters=[operator])
    assert (only.name, str(only.about)) == ("forbidden-by-operator-policy", "operator policy 'op'")
    assert only.message.endswith("makes it 3; it overrules max-length-bytes of 2 other queues as well.")


@pytest.mark.parametrize("of", ["3.8.9", "3.10.8"])
def test_in_an_export_of_one_virtual_host_that_policies_alone_name_losses_are_found(of: str) -> None:
    policy = {"vhost": "shop", "name": "p", "pattern": "^dead$", "apply-to": "queues", "priority": 0}
    document = {
        "rabbit_version": of,
        "parameters": [],
        "policies": [{**policy, "definition": {"max-length": 5}}],
        "queues": [{"name": "orders", "durable": True, "auto_delete": False, "arguments": {"x-message-ttl": 5}}],
        "exchanges": [],
        "bindings": [],
    }
    definitions = Definitions(document, "definitions")
    lost, idle = lint(definitions, release(of.rpartition(".")[0])).findings
    assert (lost.code, lost.severity, str(lost.about)) == (
        "DLX002",
        "error",
        "queue 'orders' in virtual host 'shop'",
    )
    assert idle.code == "DLX033"
    with pytest.raises(AssertionError, match="lossless is broken"):
        Trial(document, release="3.10", properties=[Lossless()]).play(lost.history)


@pytest.mark.parametrize("events", [False, True], ids=["default exchange", "events"])
def test_a_work_queue_whose_own_retry_queue_leads_back_to_it_is_no_parking_queue(events: bool) -> None:
    retry = queue("orders.retry", message_ttl=5_000, dead_letter_exchange="", dead_letter_routing_key="orders")
    sections = {"exchanges": [exchange("events", "topic")], "bindings": [bound("events", "orders")]} if events else {}
    lost, limit = found(queue("orders", queue_type="quorum"), retry, **sections)
    assert (lost.code, lost.severity, lost.about.name) == ("DLX002", "error", "orders")
    assert "a consumer that crashes 21 times" in lost.needs
    assert (limit.code, limit.about.name) == ("DLX010", "orders")
    work = queue("work", message_ttl=5_000, dead_letter_exchange="", dead_letter_routing_key="work.failed")
    assert names(work, queue("work.failed", queue_type="quorum")) == set()


@pytest.mark.parametrize("of", RELEASES)
def test_a_file_that_a_server_refuses_as_a_whole_is_a_finding_at_its_line(of: str) -> None:
    work = json.dumps(queue("a"))
    definitions = parse_definitions(f'{{"queues": [\n\n {work},\n  ]\n}}\n'.encode(), "a/h3.json")
    told = [each for each in lint(definitions, release(of)).findings if each.code == "DLX025"]
    if release(of).json_lenient:
        assert told == []
    else:
        (only,) = told
        assert str(only.about) == "file 'h3.json'"
        assert only.place is not None
        assert only.place.line == 3
        assert f"refuses the whole file: line 3, column {len(work) + 2}: the file has trailing commas" in only.message


def test_a_virtual_host_that_is_not_declared_is_told_with_the_one_that_is_meant() -> None:
    text = b'{"vhosts": [{"name": "shop"}],\n"queues": [{"name": "jobs", "vhost": "Shop"}]}'
    (only,) = lint(parse_definitions(text, "definitions.json"), release("4.3")).findings
    assert only.code == "DLX028"
    assert only.message.endswith("an import fails; did you mean 'shop'?")
    assert only.place is not None
    assert only.place.file_and_line == "definitions.json:2"


def test_what_only_a_binding_names_stands_at_the_binding_and_is_not_called_exported() -> None:
    text = b'{"vhosts": [{"name": "/"}],\n"queues": [{"name": "orders", "vhost": "/"}],\n"bindings": [\n\
{"source": "amq.topic", "vhost": "/", "destination": "ordres", "destination_type": "queue", "routing_key": "a"}]}'
    report = lint(parse_definitions(text, "definitions.json"), release("4.3"))
    (only,) = report.findings
    assert only.code == "DLX028"
    assert only.place is not None
    assert only.place.line == 4
    assert "what happens to messages in queue 'ordres': it is bound here, and not declared" in report.unchecked


@pytest.mark.parametrize("limit", [2, 5, 99, 100, 5_000, 100_000])
def test_a_full_queue_loses_with_the_first_message_that_is_one_too_many(limit: int) -> None:
    (only,) = found(queue("work", max_length=limit))
    assert only.needs == f"{limit + 1:,} waiting messages"
    assert only.severity == ("error" if limit < 100 else "warning")


def shapes(*queues: dict[str, Any], **sections: Any) -> list[str]:
    return [each.shape for each in found(*queues, **sections) if each.code == "DLX001"]


def test_findings_about_different_missing_exchanges_are_not_equal_unless_each_is_called_after_its_queue() -> None:
    assert (
        len(set(shapes(queue("bills", dead_letter_exchange="gone"), queue("jobs", dead_letter_exchange="lost")))) == 2
    )
    assert (
        len(set(shapes(queue("bills", dead_letter_exchange="gone"), queue("jobs", dead_letter_exchange="gone")))) == 1
    )
    own = [queue(f"{name}.work", dead_letter_exchange=f"{name}.dlx") for name in ("bills", "jobs")]
    assert len(set(shapes(*own))) == 1


def test_refusals_that_differ_only_in_names_and_values_are_equal() -> None:
    """What servers say has the value in it, and in double quotes names that no topology has."""

    def refused(*queues: dict[str, Any], **sections: Any) -> list[Finding]:
        return [each for each in found(*queues, **sections) if each.code == "DLX025"]

    def alike(*findings: Finding) -> bool:
        assert len(findings) == 3
        return len({each.shape for each in findings}) == 1

    def policy(name: str, **definition: Any) -> dict[str, Any]:
        keys = {key.replace("_", "-"): value for key, value in definition.items()}
        return {"vhost": "/", "name": name, "pattern": name, "apply-to": "queues", "priority": 0, "definition": keys}

    names = ("a", "b", "c")
    users = [{"name": name, "password_hash": f"no base64 {name}", "tags": []} for name in names]
    assert alike(*refused(users=users))
    rights = {"vhost": "/", "configure": "", "write": "", "read": ""}
    assert alike(*refused(permissions=[{"user": name, **rights} for name in names]))
    assert alike(*refused(policies=[policy(name, ha_mode="all") for name in names]))
    assert alike(*refused(policies=[policy(name, max_length=-length) for length, name in enumerate(names, 1)]))
    assert alike(*refused(*(queue(name, max_priority=300 + len(name)) for name in ("a", "bb", "c.1.d"))))
    idle = found(queue("jobs"), policies=[policy(name, expires=1) | {"pattern": "^none$"} for name in names])
    assert alike(*(each for each in idle if each.code == "DLX033"))
    assert not alike(*refused(users=users[:2], policies=[policy("a", ha_mode="all")]))
    assert not alike(*refused(policies=[policy("a", ha_mode="all"), policy("b", ha_params=2), policy("c", expires=-1)]))


def test_a_dead_letter_exchange_that_is_a_queue_or_the_default_one_is_told_as_that() -> None:
    (default,) = found(queue("jobs", dead_letter_exchange="amq.default"))
    assert default.message.endswith("The default exchange is called ''.")
    assert default.fix.text.startswith("set dead-letter-exchange to '': it is an argument")
    policy = {"vhost": "/", "name": "p", "pattern": "^jobs$", "apply-to": "queues", "priority": 0,
              "definition": {"dead-letter-exchange": "dead"}}  # fmt: skip
    (lost,) = found(queue("jobs"), queue("dead"), policies=[policy])
    assert lost.message.endswith("'dead' is a queue: the default exchange '' leads to it.")
    assert lost.fix.safe
    (change,) = lost.fix.changes
    assert change.item["definition"] == {"dead-letter-exchange": "", "dead-letter-routing-key": "dead"}


def test_a_misspelt_dead_letter_routing_key_is_told_with_the_one_that_is_meant() -> None:
    retry = queue("a.retry", message_ttl=5, dead_letter_exchange="", dead_letter_routing_key="a.wrok")
    (lost,) = [each for each in found(queue("a.work"), retry) if each.code == "DLX003"]
    assert lost.message.endswith("Did you mean queue 'a.work'?")
    assert lost.needs == "5 ms to pass"
    work = queue("work", dead_letter_exchange="dlx", dead_letter_routing_key="faild")
    sections = {
        "exchanges": [exchange("dlx", "direct")],
        "bindings": [bound("dlx", "dead") | {"routing_key": "failed"}],
    }
    (lost,) = [each for each in found(work, queue("dead"), **sections) if each.code == "DLX003"]
    assert lost.message.endswith("Did you mean routing key 'failed'?")


def test_dead_letters_that_come_back_are_sent_elsewhere_by_policy_where_no_argument_sets_their_key() -> None:
    work = queue("work", dead_letter_exchange="", message_ttl=5)
    (lost,) = [each for each in found(work, queue("work.dlq")) if each.code == "DLX006"]
    assert lost.fix.safe
    (change,) = lost.fix.changes
    assert change.item["definition"] == {"dead-letter-routing-key": "work.dlq"}


def test_a_wildcard_on_a_direct_exchange_needs_no_more_than_a_binding_for_a_key_that_is_known() -> None:
    sections = {"exchanges": [exchange("dlx", "direct")], "bindings": [bound("dlx", "dead") | {"routing_key": "#"}]}
    (lost,) = [each for each in found(queue("work", dead_letter_exchange="dlx"), queue("dead"), **sections)
               if each.code == "DLX003"]  # fmt: skip
    assert lost.fix.text.startswith("bind queue 'dead' to exchange 'dlx' for routing key 'work'; or delete exchange")
    assert lost.fix.changes


def test_a_loss_that_takes_a_publish_straight_to_an_exchange_for_dead_letters_comes_last() -> None:
    def topic(source: str, destination: str, key: str) -> dict[str, Any]:
        return {**bound(source, destination), "routing_key": key}

    findings = found(
        queue("stock", dead_letter_exchange="retry"),
        queue("wait", dead_letter_exchange="events", message_ttl=10_000),
        exchanges=[exchange("events", "topic"), exchange("retry", "topic")],
        bindings=[topic("events", "stock", "order.*"), topic("retry", "wait", "#")],
    )
    assert [(each.code, each.severity) for each in findings] == [("DLX005", "warning"), ("DLX003", "warning")]
    assert findings[-1].needs == "10,000 ms to pass"


def test_a_full_dead_letter_queue_refuses_the_first_dead_letter_that_is_one_too_many() -> None:
    work = queue("work", dead_letter_exchange="", dead_letter_routing_key="dead")
    (only,) = found(work, queue("dead", max_length=5, overflow="reject-publish"))
    assert (only.code, only.needs) == ("DLX014", "a consumer that rejects messages and 6 waiting messages")


def test_what_a_history_shows_is_not_called_unchecked() -> None:
    policy = {"vhost": "/", "name": "p", "pattern": ".*", "apply-to": "queues", "priority": 0,
              "definition": {"expires": 10}}  # fmt: skip
    document = {
        "vhosts": [{"name": "/"}],
        "queues": [queue("orders", message_ttl=30_000, dead_letter_exchange="dlx")],
        "exchanges": [exchange("dlx", "fanout")],
        "policies": [policy],
    }
    report = lint(Definitions(document, "definitions"), release("4.3"))
    assert "DLX003" in {each.code for each in report.findings if each.history}
    assert not [said for said in report.unchecked if "no history of it was found" in said]


def test_a_refused_dead_letter_exchange_is_told() -> None:
    work = {**queue("work"), "arguments": {"x-dead-letter-exchange": 5}}
    report = lint(Definitions({"vhosts": [{"name": "/"}], "queues": [work]}, "definitions"), release("4.0"))
    assert ("DLX025", "work") in {(each.code, each.about.name) for each in report.findings}
