"""Which policies each release refuses, and with which words; how Erlang terms look in them."""

from __future__ import annotations

from typing import Any

import pytest

from dlx.erlang_printing import Atom, Octets, field_term, in_plain_text, json_term, printed
from dlx.policy_validation import PolicyRefusedError, check_policy
from dlx.releases import RELEASES, release


def refusal(name: str, definition: dict[str, Any], *, operator: bool = False, **fields: Any) -> str:
    policy = {"pattern": ".*", "apply_to": "all", "priority": 0, **fields}
    with pytest.raises(PolicyRefusedError) as refused:
        check_policy("p", definition=definition, operator=operator, release=release(name), **policy)
    return str(refused.value)


@pytest.mark.parametrize(
    ("name", "definition", "text"),
    [
        ("4.3", {"message-ttl": 1.5}, "1.5 is not a valid message TTL"),
        ("4.3", {"expires": True}, "true is not a valid queue expiry"),
        ("4.3", {"dead-letter-exchange": None}, "null is not a valid dead letter exchange name"),
        ("3.10", {"overflow": ["drop-head"]}, '[<<"drop-head">>] is not a valid overflow value'),
        ("4.0", {"queue-mode": {"a": [104, 105]}}, '#{<<"a">> => "hi"} is not a valid queue-mode value'),
        ("4.0", {"queue-version": 3}, "3 is not a valid queue-version value"),
        ("4.0", {"max-age": "1w"}, '<<"1w">> is not a valid max age'),
        ("4.0", {"stream-filter-size-bytes": 15}, "15 is not a valid filter size. Valid range is 16-255"),
        ("4.3", {"target-group-size": 0}, "0 is not a valid qq target count value"),
        ("4.3", {"delayed-retry-type": "all"}, "delayed-retry-min is required when delayed-retry-type is all"),
        ("4.3", {"delayed-retry-min": 9, "delayed-retry-max": 5},
         "delayed-retry-max (5) must not be smaller than delayed-retry-min (9)"),
        ("4.3", {"queue-master-locator": "min-masters"},
         "use of deprecated queue-master-locator argument is not permitted"),
        ("4.0", {"queue-master-locator": "x"}, '<<"x">> is not a valid master locator'),
        ("3.8", {"queue-master-locator": "x"}, '<<"x">> invalid queue-master-locator value'),
        ("3.8", {"ha-mode": "some"}, '<<"some">> is not a valid ha-mode value'),
        ("3.8", {"ha-mode": "exactly"}, 'ha-mode="exactly" takes an integer, none given'),
        ("3.8", {"ha-mode": "all", "ha-params": 2}, 'ha-mode="all" does not take parameters'),
        ("3.8", {"ha-mode": "nodes", "ha-params": ["a", 1]},
         'ha-mode="nodes" takes a list of strings, [1] was not a string'),
        ("3.8", {"ha-mode": "all", "ha-sync-mode": 1}, 'ha-sync-mode must be "manual" or "automatic", got 1'),
        ("3.8", {"ha-sync-mode": "manual"},
         "ha-mode must be specified to specify ha-params, ha-sync-mode or ha-promote-on-shutdown"),
        ("4.0", {"ha-mode": "all"}, '[{<<"ha-mode">>,<<"all">>}] are not recognised policy settings'),
        ("3.8", {"queue-version": 2}, '[{<<"queue-version">>,2}] are not recognised policy settings'),
    ],
)  # fmt: skip
def test_a_definition_that_is_refused(name: str, definition: dict[str, Any], text: str) -> None:
    assert refusal(name, definition) == text


def test_unknown_keys_are_named_without_their_values() -> None:
    text = refusal("4.3", {"ha-mode": "exactly", "ha-params": 2, "ha-promote-on-shutdown": "always"})
    assert in_plain_text(text) == "there are no policy settings ha-mode, ha-params, ha-promote-on-shutdown"
    assert in_plain_text(refusal("4.0", {"ha-params": 2})) == "there is no policy setting ha-params"


def test_of_several_wrong_keys_the_first_by_group_and_name_is_reported() -> None:
    """In 4.3 a queue-master-locator comes first, then the keys of quorum queues last."""
    wrong = {"target-group-size": 0, "max-length": "a", "expires": 0, "foo": 1}
    assert refusal("4.3", wrong) == "0 is not a valid queue expiry"
    assert refusal("4.3", {**wrong, "queue-master-locator": "x"}).startswith("use of deprecated")
    assert refusal("4.3", {"foo": 1, "bar": "x", "max-length": 1}) == (
        '[{<<"bar">>,<<"x">>},{<<"foo">>,1}] are not recognised policy settings'
    )


def test_all_that_is_wrong_beside_the_definition_is_reported_too() -> None:
    assert refusal("3.8", {}, apply_to="streams", pattern="a)") == (
        "no policy provided\n"
        "apply-to 'streams' unrecognised; should be 'queues', 'exchanges' or 'all'\n"
        'pattern should be regular expression but is invalid: {"unmatched parentheses",\n'
        "                                                      1}"
    )


@pytest.mark.parametrize(
    ("pattern", "old", "new"),
    [
        ("(", ("missing )", 1), ("missing closing parenthesis", 1)),
        ("ä)", ("unmatched parentheses", 2), ("unmatched closing parenthesis", 3)),
        ("a**", ("nothing to repeat", 2), ("quantifier does not follow a repeatable item", 3)),
        ("(?", ("unrecognized character after (? or (?-", 2), ("missing closing parenthesis", 2)),
    ],
)
def test_a_broken_pattern_is_described_as_the_servers_library_does(
    pattern: str, old: tuple[str, int], new: tuple[str, int]
) -> None:
    for name, (words, at) in (("4.0", old), ("4.3", new)):
        said = refusal(name, {"expires": 1}, pattern=pattern)
        assert " ".join(said.split()).replace("invalid: ", "invalid:") == " ".join(
            f'pattern should be regular expression but is invalid:{{"{words}", {at}}}'.replace(
                '", ', '", ' if "\n" in said else '",'
            ).split()
        )


def test_operators_have_fewer_keys() -> None:
    for name in RELEASES:
        check_policy("p", ".*", {"max-length": 1, "expires": 5}, "all", 0, operator=True, release=release(name))
        text = refusal(name, {"dead-letter-exchange": "x"}, operator=True)
        assert text == '[{<<"dead-letter-exchange">>,<<"x">>}] are not recognised policy settings'


def test_negative_delivery_limits_came_with_4() -> None:
    assert refusal("3.10", {"delivery-limit": -1}) == "-1 is not a valid delivery limit"
    check_policy("p", ".*", {"delivery-limit": -1}, "all", 0, operator=False, release=release("4.0"))


def test_a_long_pattern() -> None:
    assert refusal("4.3", {"expires": 1}, pattern="x" * 1025) == "pattern must not exceed 1024 bytes"
    check_policy("p", "x" * 1025, {"expires": 1}, "all", 0, operator=False, release=release("4.0"))


def test_a_value_that_no_server_foresees_is_an_internal_error() -> None:
    with pytest.raises(PolicyRefusedError) as refused:
        check_policy("p", ".*", {"max-age": 5}, "all", 0, operator=False, release=release("4.3"))
    assert refused.value.status == 500


# Erlang terms; every expectation is what erl prints


@pytest.mark.parametrize(
    ("term", "text"),
    [
        (Atom("longstr"), "longstr"),
        (Atom("x-local-random"), "'x-local-random'"),
        (b"", "<<>>"),
        (b'a"\n', r'<<"a\"\n">>'),
        ("ä".encode(), '<<"ä"/utf8>>'),
        ("€".encode(), '<<"€"/utf8>>'),
        (Octets("€".encode()), "<<226,130,172>>"),
        (b"\xff", '<<"ÿ">>'),
        (1.0, "1.0"),
        (100000.0, "1.0e5"),
        (123456789.5, "123456789.5"),
        (0.001, "0.001"),
        (1e22, "1.0e22"),
        ([104, 105], '"hi"'),
        ([], "[]"),
        ((Atom("a"), [1, (2,)]), "{a,[1,{2}]}"),
        ({b"k": {}}, '#{<<"k">> => #{}}'),
    ],
)
def test_a_term_on_one_line(term: Any, text: str) -> None:
    assert printed(term) == text


def test_a_long_term_is_broken_into_lines() -> None:
    term = json_term([{"key": "a" * 30}, ["b" * 30, "c" * 30, 1], {"d": 1, "e": "f" * 60, "g": [True]}])
    assert "\n" + " " * 7 + printed(term, 7) == (
        f'\n       [#{{<<"key">> => <<"{"a" * 30}">>}},\n'
        f'        [<<"{"b" * 30}">>,\n         <<"{"c" * 30}">>,1],\n'
        f'        #{{<<"d">> => 1,\n          <<"e">> =>\n              <<"{"f" * 60}">>,\n'
        '          <<"g">> => [true]}]'
    )


def test_field_values_are_held_with_the_types_of_what_is_in_them() -> None:
    assert printed(field_term({"a": [1, "x", None]})) == (
        '[{<<"a">>,array,[{signedint,1},{longstr,<<"x">>},{void,undefined}]}]'
    )
