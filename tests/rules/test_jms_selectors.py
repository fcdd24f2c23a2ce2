"""Selectors of x-jms-topic exchanges: what they are true of."""

from __future__ import annotations

from typing import Any

import pytest

from dlx import Binding, Exchange, PublishRefusedError, Queue, Topology, dead_letter, published, release, route
from dlx.jms_selectors import SELECTOR, SelectorError, is_selector, selects, unknown_atom
from dlx.key_classes import KeyClasses
from dlx.routing import headers_looked_at
from dlx.settings import effective_settings

COLOUR = '{ident,<<"colour">>}'
SIZE = '{ident,<<"size">>}'


@pytest.mark.parametrize(("selector", "headers", "expected"), [
    ("true.", {}, True),
    ("false.", {}, False),
    ("bogus.", {}, False),
    (f"{{'=',{COLOUR},<<\"red\">>}}.", {"colour": "red"}, True),
    (f"{{'=',{COLOUR},<<\"red\">>}}.", {"colour": "blue"}, False),
    (f"{{'=',{COLOUR},<<\"red\">>}}.", {}, False),
    (f"{{'not',{{'=',{COLOUR},<<\"red\">>}}}}.", {}, False),
    (f"{{'not',{{'=',{COLOUR},<<\"red\">>}}}}.", {"colour": "blue"}, True),
    (f"{{'=',{SIZE},1.0}}.", {"size": 1}, True),
    (f"{{'=',{SIZE},1}}.", {"size": True}, False),
    (f"{{'>',{SIZE},1}}.", {"size": 2}, True),
    (f"{{'>',{SIZE},1}}.", {"size": "text"}, True),
    (f"{{'=',{{'+',{SIZE},1}},3}}.", {"size": 2}, True),
    (f"{{'=',{{'-',{SIZE}}},-2}}.", {"size": 2}, True),
    (f"{{between,{SIZE},{{range,1,3}}}}.", {"size": 3}, True),
    (f"{{not_between,{SIZE},{{range,1,3}}}}.", {"size": 3}, False),
    (f"{{not_between,{SIZE},{{range,1,3}}}}.", {}, False),
    (f"{{in,{COLOUR},[<<\"red\">>,<<\"blue\">>]}}.", {"colour": "blue"}, True),
    (f"{{not_in,{COLOUR},[<<\"red\">>]}}.", {"colour": "blue"}, True),
    (f"{{like,{COLOUR},<<\"r_d%\">>,no_escape}}.", {"colour": "redder"}, True),
    (f"{{like,{COLOUR},<<\"r_d\">>,no_escape}}.", {"colour": "redder"}, False),
    (f"{{like,{COLOUR},<<\"r!_d\">>,<<\"!\">>}}.", {"colour": "red"}, False),
    (f"{{not_like,{COLOUR},<<\"b%\">>,no_escape}}.", {"colour": "red"}, True),
    (f"{{is_null,{COLOUR}}}.", {}, True),
    (f"{{not_null,{COLOUR}}}.", {"colour": "red"}, True),
    (f"{{'and',{{is_null,{SIZE}}},{{not_null,{COLOUR}}}}}.", {"colour": "red"}, True),
    (f"{{'or',{{'>',{SIZE},1}},true}}.", {}, True),
    (f"{{'and',{{'>',{SIZE},1}},true}}.", {}, False),
])  # fmt: skip
def test_a_selector_is_true_of_headers(selector: str, headers: dict[str, Any], expected: bool) -> None:
    assert selects({SELECTOR: selector}, headers) is expected


@pytest.mark.parametrize("text", ["bogus", "", "{a,b}", "{a,.", "[1,2", "{a}. b", "'", None, 5])
def test_what_is_no_term_is_no_selector(text: Any) -> None:
    assert not is_selector(text)
    assert not selects({SELECTOR: text}, {})


def test_an_atom_without_a_meaning_is_found() -> None:
    assert unknown_atom("bogus") == "bogus"
    assert unknown_atom(f"{{'=',{COLOUR},<<\"bogus\">>}}.") is None


def test_a_selector_may_fail_at_a_message() -> None:
    """A server ends the connection of the publisher then, and loses a dead letter."""
    adds = f"{{'>',{{'+',{COLOUR},1}},1}}."
    with pytest.raises(SelectorError, match="number"):
        selects({SELECTOR: adds}, {"colour": "red"})
    queue = Queue(name="s", arguments={"x-dead-letter-exchange": "j"})
    topology = Topology.of(
        exchanges=[Exchange(name="j", type="x-jms-topic")],
        queues=[queue, Queue(name="q")],
        bindings=[Binding(source="j", destination="q", arguments={SELECTOR: adds})],
    )
    rules = release("4.3")
    message = published("j", "", headers={"colour": "red"}, release=rules)
    with pytest.raises(PublishRefusedError) as refused:
        route(message, topology, rules)
    assert refused.value.code == 541
    dead = dead_letter(message, "rejected", effective_settings(queue, topology, rules), topology, rules)
    assert (dead.outcome, dead.queues) == ("unroutable", ())


def test_keys_play_no_part() -> None:
    topology = Topology.of(
        exchanges=[Exchange(name="j", type="x-jms-topic")],
        queues=[Queue(name="q"), Queue(name="r")],
        bindings=[
            Binding(source="j", destination="q", routing_key="a", arguments={SELECTOR: "true."}),
            Binding(source="j", destination="r", routing_key="b", arguments={SELECTOR: "false."}),
        ],
    )
    rules = release("4.3")
    assert route(published("j", "b", release=rules), topology, rules) == ("q",)


def test_messages_whose_selected_headers_differ_are_told_apart() -> None:
    """What is known of one message must not be taken for another that is routed otherwise."""
    selector = f"{{'or',{{'=',{COLOUR},<<\"red\">>}},{{in,{SIZE},[1]}}}}."
    topology = Topology.of(
        exchanges=[Exchange(name="j", type="x-jms-topic")],
        queues=[Queue(name="q")],
        bindings=[Binding(source="j", destination="q", arguments={SELECTOR: selector})],
    )
    rules = release("4.3")
    assert headers_looked_at(topology) == {"colour", "size"}
    classes = KeyClasses(topology, rules)
    red, blue = (published("j", "", headers={"colour": colour}, release=rules) for colour in ("red", "blue"))
    assert classes.message_class(red) != classes.message_class(blue)
