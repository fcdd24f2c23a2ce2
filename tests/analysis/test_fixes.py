"""What lint says to do, done: the finding is gone, and no message is lost that was not lost before."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dlx.releases import release
from simulator.analysis.findings import Finding
from simulator.analysis.lint.fixes import applied, combined, policy_commands
from simulator.analysis.lint.linting import lint
from simulator.definitions import Definitions, read_definitions
from tests.analysis.test_lint import bound, exchange, found, queue

HERE = Path(__file__).parent
EXAMPLES = HERE / "fix_examples"
RULES = release("4.3")


def changeable() -> Iterator[Path]:
    """Yield the definitions of which some finding has a fix as data; those of frameworks have none."""
    for file in sorted([*HERE.glob("*_examples/*.json"), *Path("examples/topologies/broken").glob("*.json")]):
        if any(each.fix.changes for each in lint(read_definitions(file), RULES).findings):
            yield file


def test_fixes_that_are_carried_out_leave_nothing_of_their_findings_and_lose_nothing_else() -> None:
    names = set()
    for file in changeable():
        definitions = read_definitions(file)
        before = lint(definitions, RULES).findings
        mended = [each for each in before if each.fix.changes]
        after = lint(applied(definitions, combined(mended)), RULES).findings
        told = {(each.code, each.about) for each in after}
        assert not told & {(each.code, each.about) for each in mended}, file
        assert errors(after) <= errors(before), file
        names.add(file.stem)
    assert {"policy-shadowed", "forgotten-dead-letter-exchange", "key-not-covered"} <= names
    assert {"wildcard-on-direct-exchange", "binding-without-routing-key", "at-least-once-ineffective"} <= names


def errors(findings: tuple[Finding, ...]) -> set[Any]:
    return {(each.code, each.about) for each in findings if each.severity == "error"}


def fix_of(name: str, code: str) -> str:
    findings = lint(read_definitions(EXAMPLES / f"{name}.json"), RULES).findings
    return next(str(each.fix) for each in findings if each.code == code)


def test_the_fix_for_no_dead_letter_exchange_names_the_one_that_is_there() -> None:
    set_both = "set dead-letter-exchange to 'dead.letter' and dead-letter-routing-key to 'failed'"
    assert fix_of("forgotten-dead-letter-exchange", "DLX002") == f"with a policy for 'work': {set_both}"


def test_a_wildcard_on_a_direct_exchange_is_told_as_the_cause() -> None:
    (lost,) = lint(read_definitions(EXAMPLES / "wildcard-on-direct-exchange.json"), RULES).findings
    assert lost.message.endswith("'dlx' is a direct exchange, to which '#' is a key like any other.")
    assert "as a topic or fanout exchange" in lost.fix.text


def test_a_name_that_merely_contains_wait_or_backoff_is_no_waiting_queue() -> None:
    assert lint(read_definitions(EXAMPLES / "no-waiting-queues.json"), RULES).findings == ()


def test_where_several_dead_letter_exchanges_would_do_none_is_named() -> None:
    exchanges = [exchange("dlx", "fanout"), exchange("dead", "fanout")]
    bindings = [bound("dlx", "failed"), bound("dead", "broken")]
    queues = queue("work", message_ttl=1), queue("failed"), queue("broken")
    lost, *_ = found(*queues, exchanges=exchanges, bindings=bindings)
    assert lost.name == "no-dlx-on-rejecting"
    assert lost.fix.text.endswith("to an exchange that a queue is bound to")
    assert not lost.fix.changes


def test_a_queue_called_after_another_one_and_dead_letters_takes_its_dead_letters() -> None:
    lost, *_ = found(queue("orders", message_ttl=1), queue("mails"), queue("orders.dlq"), queue("mails.dlq"))
    assert "set dead-letter-exchange to '' and dead-letter-routing-key to 'orders.dlq'" in lost.fix.text


def test_a_policy_that_applies_to_other_queues_is_left_alone() -> None:
    policy = {"vhost": "/", "name": "ttl", "pattern": "^(work|mails)$", "apply-to": "queues", "priority": 3,
              "definition": {"message-ttl": 5}}  # fmt: skip
    findings = found(queue("work"), queue("mails"), queue("work.dlq"), policies=[policy])
    (change,) = next(each for each in findings if each.about.name == "work").fix.changes
    assert (change.item["name"], change.item["pattern"], change.item["priority"]) == ("dlx-work", "^work$", 4)
    dead_letters = {"dead-letter-exchange": "", "dead-letter-routing-key": "work.dlq"}
    assert change.item["definition"] == {"message-ttl": 5, **dead_letters}


@pytest.mark.parametrize(
    ("definition", "more", "told"),
    [
        ({"dead-letter-exchange": "dlx"}, {}, {"DLX006": "dead-letter-exchange"}),
        ({"dead-letter-exchange": "", "dead-letter-routing-key": "q.dlq"}, {}, {"DLX006": "dead-letter-exchange"}),
        (
            {"dead-letter-exchange": "dlx"},
            {"message_ttl": 5},
            {"DLX004": "dead-letter-exchange", "DLX006": "dead-letter-exchange"},
        ),
        ({"max-length": 3}, {}, {"DLX016": "max-length"}),
    ],
)
def test_a_queue_for_dead_letters_is_kept_out_of_a_policy_that_is_for_all(
    definition: dict[str, Any], more: dict[str, Any], told: dict[str, str]
) -> None:
    policy = {
        "vhost": "/",
        "name": "dl",
        "pattern": ".*",
        "apply-to": "queues",
        "priority": 0,
        "definition": definition,
    }
    sections = {"exchanges": [exchange("dlx", "fanout")],
                "bindings": [bound("dlx", "q.dlq"), *[bound("dlx", "r.dlq")] * bool(more)]}  # fmt: skip
    queues = [queue("q", dead_letter_exchange="dlx"), queue("q.dlq", **more), *[queue("r.dlq")] * bool(more)]
    fixes = {
        each.code: each.fix for each in found(*queues, policies=[policy], **sections) if each.about.name == "q.dlq"
    }
    for code, key in told.items():
        assert fixes[code].text.startswith("keep 'q.dlq' out of policy dl: ")
        assert fixes[code].text.endswith(f"a policy of a higher priority without {key}")
    alone = found(*queues, policies=[{**policy, "pattern": "^q.dlq$"}], **sections)
    assert not [each for each in alone if "keep 'q.dlq' out" in each.fix.text]


def test_keys_that_stand_for_a_wildcard_are_not_bound() -> None:
    sections = {
        "exchanges": [exchange("events", "topic"), exchange("dlx", "topic")],
        "bindings": [{**bound("events", "work"), "routing_key": "w.#"}, {**bound("dlx", "dead"), "routing_key": "x"}],
    }
    (lost,) = [each for each in found(queue("work", dead_letter_exchange="dlx"), queue("dead"), **sections)
               if each.name == "unroutable-dead-letter"]  # fmt: skip
    assert lost.fix.text == "bind queue 'dead' to exchange 'dlx' for routing key '#'"
    assert [each.item["routing_key"] for each in lost.fix.changes] == ["#"]


@pytest.mark.parametrize(
    ("kind", "keys"),
    [("direct", " for all keys that publishers use"), ("topic", " for routing key '#'"), ("fanout", ""),
     ("headers", ""), ("x-consistent-hash", "")],
)  # fmt: skip
def test_an_exchange_to_which_nothing_is_bound_is_one_cause_with_one_fix_for_all_queues(kind: str, keys: str) -> None:
    policy = {"vhost": "/", "name": "dlx", "pattern": ".*", "apply-to": "queues", "priority": 1,
              "definition": {"dead-letter-exchange": "d"}}  # fmt: skip
    sections = {
        "policies": [policy],
        "exchanges": [exchange("work", "topic"), exchange("d", kind)],
        "bindings": [{**bound("work", "jobs"), "routing_key": "jobs.*"}, {**bound("work", "mail"), "routing_key": "m"}],
    }
    lost = [each for each in found(queue("jobs"), queue("mail"), queue("lone"), **sections) if each.code == "DLX003"]
    assert {each.message for each in lost} == {
        f"nothing is bound to exchange 'd': every dead letter of '{name}' is lost." for name in ("jobs", "mail", "lone")
    }
    assert {each.fix.text for each in lost} == {f"declare a queue and bind it to exchange 'd'{keys}"}
    assert len({each.shape for each in lost}) == 1


def test_where_nothing_is_bound_the_queue_for_dead_letters_and_the_set_routing_key_are_named() -> None:
    sections = {
        "exchanges": [exchange("events", "topic"), exchange("d", "direct")],
        "bindings": [{**bound("events", "work"), "routing_key": "w.*"}],
    }
    (lost,) = found(queue("work", dead_letter_exchange="d"), queue("work.dead"), **sections)
    assert lost.fix.text == "bind queue 'work.dead' to exchange 'd' for all keys that publishers use"
    (lost,) = found(queue("work", dead_letter_exchange="d", dead_letter_routing_key="k"), **sections)
    assert lost.fix.text == "declare a queue and bind it to exchange 'd' for routing key 'k'"


def test_no_queue_is_bound_for_all_keys_of_an_exchange_that_is_not_for_dead_letters_alone() -> None:
    sections = {
        "exchanges": [exchange("events", "topic")],
        "bindings": [{**bound("events", "work"), "routing_key": "w.*"}],
    }
    wait = queue("wait", message_ttl=5, dead_letter_exchange="events")
    lost = next(each for each in found(queue("work"), wait, **sections) if each.name == "unroutable-dead-letter")
    assert "#" not in lost.fix.text
    assert not lost.fix.changes or lost.fix.changes[0].item["routing_key"] == "wait"


def test_a_name_that_a_server_made_up_stands_in_no_policy() -> None:
    findings = found({**queue("amq.gen-X", message_ttl=5)}, exchanges=[exchange("dlx", "fanout")],
                     bindings=[bound("dlx", "dead")])  # fmt: skip
    (lost,) = [each for each in findings if each.name == "no-dlx-on-rejecting"]
    assert "queues that servers name" in lost.fix.text
    assert not lost.fix.changes


def test_no_fix_takes_the_way_back_from_a_queue_where_messages_wait() -> None:
    policy = {"vhost": "/", "name": "all", "pattern": ".*", "apply-to": "queues", "priority": 0,
              "definition": {"dead-letter-exchange": "dlx"}}  # fmt: skip
    work = queue("work", dead_letter_exchange="", dead_letter_routing_key="work.retry")
    wait = queue("work.retry", message_ttl=5, dead_letter_exchange="", dead_letter_routing_key="work")
    sections = {"policies": [policy], "exchanges": [exchange("dlx", "fanout")], "bindings": [bound("dlx", "dead")]}
    hidden = [each for each in found(work, wait, queue("dead"), **sections) if each.name == "argument-hides-policy"]
    assert {each.about.name for each in hidden} == {"work", "work.retry"}
    assert all(each.fix.safe and "leave" in each.fix.text for each in hidden)


def test_policies_are_printed_as_commands_for_a_running_server() -> None:
    text = policy_commands(lint(read_definitions(EXAMPLES / "forgotten-dead-letter-exchange.json"), RULES).findings)
    assert (
        "rabbitmqctl set_policy -p / --priority 0 --apply-to queues dlx-work '^work$' "
        """'{"dead-letter-exchange":"dead.letter","dead-letter-routing-key":"failed"}'\n"""
    ) in text
    assert "curl -fsS -u USER -X PUT" in text
    assert "http://localhost:15672/api/policies/%2F/dlx-work" in text
    assert "\nkind: Policy\n" in text
    none = policy_commands(lint(Definitions({"queues": []}, "definitions"), RULES).findings)
    assert none.startswith("# no finding")


def test_fixes_are_data_in_json_where_they_can_be_carried_out() -> None:
    report = lint(read_definitions(EXAMPLES / "forgotten-dead-letter-exchange.json"), RULES).as_json()
    (change,) = json.loads(json.dumps(report["findings"][0]["fix"]["changes"]))
    assert change["section"] == "policies"
    assert change["item"]["definition"]["dead-letter-exchange"] == "dead.letter"


def test_what_a_mistaken_argument_was_to_do_is_done_by_policy() -> None:
    work = queue("work", dead_leter_exchange="dlx")
    sections = {"exchanges": [exchange("dlx", "fanout")], "bindings": [bound("dlx", "dead")]}
    (misspelt,) = [each for each in found(work, queue("dead"), **sections) if each.name == "misspelt-name"]
    assert misspelt.fix.safe
    assert misspelt.fix.text.startswith("with a policy for 'work': set dead-letter-exchange to 'dlx'; name it ")


@pytest.mark.parametrize(
    ("made_up", "meant"),
    [
        ("max_retries", "x-delivery-limit"),
        ("retry_count", "x-delivery-limit"),
        ("max_delivery_attempts", "x-delivery-limit"),
        ("dlq", "x-dead-letter-exchange"),
        ("dead_letter_queue", "x-dead-letter-exchange"),
        ("queue_ttl", "x-message-ttl"),
        ("retry_delay", "x-message-ttl"),
        ("max_size", "x-max-length"),
    ],
)
def test_an_argument_that_somebody_made_up_is_told_with_the_real_one(made_up: str, meant: str) -> None:
    said = [each.message for each in found(queue("work", **{made_up: 3})) if each.name == "misspelt-name"]
    assert said == [f"servers ignore argument x-{made_up.replace('_', '-')} of 'work'; did you mean {meant}?"]


def test_a_limit_that_a_type_of_queue_does_not_have_is_not_set_by_policy() -> None:
    (made_up,) = [each for each in found(queue("work", max_retries=3)) if each.name == "misspelt-name"]
    assert made_up.fix.text.startswith("classic queues have no delivery-limit")
    (made_up,) = [
        each for each in found(queue("work", max_retries=3, queue_type="quorum")) if each.name == "misspelt-name"
    ]
    assert made_up.fix.text.startswith("with a policy for 'work': set delivery-limit; ")


def test_an_argument_of_a_plugin_is_no_mistake() -> None:
    assert found(queue("work", message_deduplication=True, cache_persistence="memory")) == []
