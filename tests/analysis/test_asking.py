"""Questions about definitions: their rows, comparisons of two sides, and assertions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simulator.analysis import ask
from simulator.scenario.properties.property import PropertyBroken
from simulator.scenario.trial import Trial


def queue(name: str, **arguments: Any) -> dict[str, Any]:
    arguments = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
    return {"name": name, "vhost": "/", "durable": True, "auto_delete": False, "arguments": arguments}


def document(*queues: dict[str, Any], **sections: Any) -> dict[str, Any]:
    return {"vhosts": [{"name": "/"}], "queues": list(queues), **sections}


LADDER = document(
    queue("orders", dead_letter_exchange="", dead_letter_routing_key="orders.wait"),
    queue("orders.wait", dead_letter_exchange="", dead_letter_routing_key="orders", message_ttl=60_000),
)
QUORUM = document(queue("jobs", queue_type="quorum"))


def test_a_loss_has_its_way_its_rule_and_a_history_that_loses_the_message() -> None:
    definitions = document(queue("bills", dead_letter_exchange="biils", message_ttl=1_000), queue("other"))
    answer = ask(definitions).losses(queue="b*").answer()
    assert {(row.about.name, row.fate) for row in answer} == {
        ("bills", "rejected: dead-letter exchange missing"),
        ("bills", "expired: dead-letter exchange missing"),
    }
    for row in answer:
        assert "biils" in row.rule
        with pytest.raises(PropertyBroken):
            Trial(definitions, properties=["lossless"]).play(row.history)


def test_what_an_answer_rests_on_is_said() -> None:
    answer = ask(QUORUM).losses().answer("3.13")
    assert not answer.rows
    assert "without a dead-letter exchange, no consumer rejects for good in 'jobs'" in answer.assumed


def test_two_releases_are_compared() -> None:
    answer = ask(QUORUM).losses().answer("4.3", against_release="3.13")
    assert [(row.side, row.fate) for row in answer] == [("added", "delivery_limit: no dead-letter exchange")]
    assert "20" in answer.rows[0].rule
    back = ask(QUORUM).losses().answer("3.13", against_release="4.3")
    assert [row.side for row in back] == ["removed"]


def test_without_a_release_it_is_that_of_the_exporting_server() -> None:
    keys = {"name": "orders", "vhost": "/", "durable": True, "auto_delete": False}
    document = {"vhosts": [{"name": "/"}], "queues": [{**keys, "arguments": {"x-queue-type": "quorum"}}]}

    def settings(version: str, *release: str) -> set[str]:
        return {
            row.fate for row in ask({**document, "rabbit_version": version}).effective_settings().answer(*release).rows
        }

    assert "delivery-limit 20" in settings("4.3.6")
    assert "delivery-limit 20" not in settings("3.13.7")
    assert "delivery-limit 20" in settings("3.13.7", "4.3")


def test_what_a_release_changes() -> None:
    answer = ask(QUORUM).release_changes(since="3.13").answer("4.3")
    limit = next(row for row in answer if row.rule.startswith("quorum_default_delivery_limit: "))
    assert limit.about.name == "jobs"
    assert "20" in limit.fate
    assert answer.unchecked
    assert not ask(QUORUM).release_changes(since="4.3").answer("4.3").rows


def test_two_definitions_are_compared(tmp_path: Path) -> None:
    other = document(queue("orders", message_ttl=1_000))
    answer = ask(document(queue("orders"))).effective_settings().answer(against=other)
    assert [(row.side, row.fate) for row in answer] == [("removed", "message-ttl 1000")]


def test_the_ways_of_dead_letters() -> None:
    rows = ask(LADDER).dead_letter_paths("orders").answer().rows
    assert {row.fate for row in rows} == {"rejected: dead-lettered to 'orders.wait'"}


def test_loops() -> None:
    rows = ask(LADDER).loops().answer().rows
    assert [set(row.path.split(" → ")) for row in rows] == [{"orders", "orders.wait"}]
    assert ask(document(queue("orders", dead_letter_exchange=""))).loops().answer().rows[0].path == "orders → orders"


def test_names_that_nothing_has() -> None:
    definitions = document(
        queue("a", dead_letter_exchange="no.such"),
        queue("b", dead_letter_exchange="", dead_letter_routing_key="c"),
        exchanges=[{"name": "x", "vhost": "/", "type": "fanout", "durable": True, "auto_delete": False,
                    "internal": False, "arguments": {"alternate-exchange": "y"}}],
    )  # fmt: skip
    fates = {row.about.name: row.fate for row in ask(definitions).undefined_references().answer()}
    assert fates == {
        "a": "dead-letter exchange 'no.such' does not exist",
        "b": "dead-letter routing key 'c' names no queue",
        "x": "alternate exchange 'y' does not exist",
    }


def test_queues_and_policies_that_nothing_reaches() -> None:
    policies = [
        {"vhost": "/", "name": name, "pattern": pattern, "apply-to": "queues", "definition": {"max-length": 1},
         "priority": priority}
        for name, pattern, priority in (("first", "^bound$", 9), ("second", "^bound$", 1), ("nobody", "^zz", 0))
    ]  # fmt: skip
    bindings = [{"source": "amq.fanout", "vhost": "/", "destination": "bound", "destination_type": "queue",
                 "routing_key": "", "arguments": {}}]  # fmt: skip
    asked = ask(document(queue("bound"), queue("alone"), bindings=bindings, policies=policies))
    assert [row.about.name for row in asked.unreachable_queues().answer()] == ["alone"]
    idle = {row.about.name: row.rule for row in asked.unreachable_policies().answer()}
    assert idle == {
        "second": "wherever it could apply, as to 'bound', another policy comes first",
        "nobody": "its pattern '^zz' is found in no name",
    }


def test_assertions_name_the_rows_and_know_exceptions() -> None:
    answer = ask(document(queue("a", message_ttl=1), queue("b", message_ttl=1))).losses().answer()
    with pytest.raises(AssertionError, match=r"queue 'a': publish .*expired: no dead-letter exchange"):
        answer.assert_none(but=["b"])
    answer.assert_none(but=["a", "b"])
    with pytest.raises(AssertionError, match=r"no row is about 'c', which but= names; there are 'a', 'b'"):
        answer.assert_none(but=["a", "b", "c"])
    with pytest.raises(AssertionError, match=r"(?s)queue 'a': publish .*no row is about 'bb'.*did you mean 'b'\?"):
        answer.assert_none(but=["bb"])
    with pytest.raises(TypeError, match=r"but='a': expected names in a list, such as \['orders'\]"):
        answer.assert_none(but="a")


def test_a_pattern_or_a_release_that_is_no_text_is_refused_at_once() -> None:
    asked = ask(document(queue("a")))
    wrong: Any = 5
    for question in (asked.losses, asked.dead_letter_paths, asked.loops, asked.effective_settings):
        with pytest.raises(TypeError, match=r"queue=5: expected a name, or a pattern such as 'orders\*'"):
            question(queue=wrong)
    number: Any = 4.3
    with pytest.raises(TypeError, match=r"release 4\.3: expected text, such as '4\.3'"):
        asked.losses().answer(release=number)
    with pytest.raises(TypeError, match=r"release 4\.3: expected text"):
        asked.losses().answer(against_release=number)


def test_a_frame_and_a_table_have_the_same_rows() -> None:
    answer = ask(document(queue("<a>", message_ttl=1))).losses().answer()
    frame = answer.frame()
    assert list(frame["object"]) == ["<a>"]
    assert frame["history"][0][0]["do"] == "publish"
    assert "&lt;a&gt;" in answer._repr_html_()
    assert answer.as_json()["rows"][0]["object"] == "<a>"
