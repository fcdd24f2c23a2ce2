"""Which queues, exchanges and bindings each release refuses, and with which words."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dlx import amqp_errors
from dlx.amqp_errors import Refusal
from dlx.bindings import check_binding
from dlx.consumer_arguments import check_consumer_arguments, check_credit, check_stream_offset
from dlx.declarations import (
    augmented_arguments,
    check_exchange_equivalence,
    check_queue_equivalence,
    check_server_named,
    declared_exchange,
    declared_queue,
)
from dlx.field_values import Binary, Long, Short
from dlx.releases import RELEASES, Release, release
from dlx.topology import Exchange, Queue
from tests.rules.declared import ORDER, Declared

RECORDED = Path(__file__).parent.parent / "vectors" / "recorded"
VHOST = "dlx-vectors"
PRECONDITION_FAILED = "PRECONDITION_FAILED - "


def recorded(validation: bool) -> list[Any]:
    """A parameter for each vector: those of kind ``validation``, or all others."""
    return [
        pytest.param(vector, id=vector["name"])
        for path in sorted(RECORDED.glob("*.json"))
        for vector in json.loads(path.read_text(encoding="utf-8"))
        if (vector["kind"] == "validation") is validation
    ]


def outcomes(vector: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """What came of a vector on each release."""
    return {name: seen["outcome"] for seen in vector["seen"] for name in seen["releases"]}


@pytest.mark.parametrize("vector", recorded(validation=True))
def test_attempts_end_as_recorded(vector: dict[str, Any]) -> None:
    """Each declaration in turn: accepted, or refused with the recorded code and text."""
    expected = {name: [seen.get("error") for seen in ended["attempts"]] for name, ended in outcomes(vector).items()}
    assert {name: errors(vector, name) for name in expected} == expected


def errors(vector: dict[str, Any], name: str) -> list[dict[str, Any] | None]:
    declared = Declared(release(name), VHOST)
    return [declared.refused(attempt["what"], attempt["definition"]) for attempt in vector["attempts"]]


@pytest.mark.parametrize("vector", recorded(validation=False))
def test_definitions_are_refused_where_they_were(vector: dict[str, Any]) -> None:
    """The definitions of every other vector are all accepted, but for the one that its outcome names."""
    refused = {name: outcome.get("refused") for name, outcome in outcomes(vector).items()}
    expected = {name: told and (told["what"], without_prefix(told["text"])) for name, told in refused.items()}
    assert {name: first_refusal(vector, name) for name in expected} == expected


def first_refusal(vector: dict[str, Any], name: str) -> tuple[str, str] | None:
    """What was to be declared, and why that was refused."""
    declared = Declared(release(name), VHOST)
    for what in ORDER:
        for definition in vector["definitions"].get(what, ()):
            if found := declared.refused(what, definition):
                return what, without_prefix(found["text"])
    return None


def without_prefix(text: str) -> str:
    return text.removeprefix(PRECONDITION_FAILED)


def test_there_are_recordings() -> None:
    """A lost file or a changed form must not turn these tests into none."""
    assert sum(len(outcomes(*param.values)) for param in recorded(validation=True)) >= 40
    assert sum(len(outcomes(*param.values)) for param in recorded(validation=False)) >= 900


# Queues


def declared(rules: Release, name: str = "q", **asked: Any) -> Queue:
    fields = {"durable": not asked.get("exclusive"), "auto_delete": False, "exclusive": False, "arguments": {}, **asked}
    return declared_queue(name, vhost="/", release=rules, **fields)


def refusal(rules: Release, name: str = "q", **asked: Any) -> str:
    with pytest.raises(Refusal) as refused:
        declared(rules, name, **asked)
    return refused.value.text


@pytest.mark.parametrize(
    ("arguments", "texts"),
    [
        ({"x-max-length": Binary(b"5")}, ("{unacceptable_type,binary}", '"expected integer, got binary"')),
        ({"x-queue-type": "mqtt"}, ("invalid_queue_type", "\"unsupported queue type 'mqtt'\"")),
        ({"x-queue-mode": "busy"}, ("invalid_queue_mode", "\"unsupported queue mode 'busy'\"")),
        ({"x-max-priority": 256}, ("{max_value_exceeded,256}",) * 2),
        ({"x-single-active-consumer": "true"}, ("{unacceptable_type,longstr}",) * 2),
    ],
)
def test_wrong_values_are_described_in_the_words_of_the_release(
    arguments: dict[str, Any], texts: tuple[str, str]
) -> None:
    key = next(iter(arguments))
    for name, text in zip(("3.8", "4.0"), texts, strict=True):
        assert refusal(release(name), arguments=arguments) == (
            f"PRECONDITION_FAILED - invalid arg '{key}' for queue 'q' in vhost '/': {text}"
        )


@pytest.mark.parametrize(
    ("kind", "asked", "text"),
    [
        ("quorum", {"auto_delete": True, "exclusive": True}, "auto-delete"),
        ("quorum", {"exclusive": True, "durable": False}, "exclusive-owner"),
        ("stream", {"durable": False}, "non-durable"),
    ],
)
def test_replicated_queues_are_durable_and_shared(kind: str, asked: dict[str, Any], text: str) -> None:
    said = refusal(release("4.3"), arguments={"x-queue-type": kind}, **asked)
    assert said == f"PRECONDITION_FAILED - invalid property '{text}' for queue 'q' in vhost '/'"


def test_arguments_of_other_types_are_refused_in_the_order_in_which_they_come() -> None:
    arguments = {"x-max-priority": 1, "x-queue-type": "quorum", "x-max-age": "1h", "x-unheard-of": 1}
    assert refusal(release("4.3"), arguments=arguments).endswith(
        "invalid arg 'x-max-priority' for queue 'q' in vhost '/' of queue type rabbit_quorum_queue"
    )
    del arguments["x-max-priority"]
    assert "'x-max-age'" in refusal(release("4.3"), arguments=arguments)
    assert declared(release("3.8"), arguments=arguments).type == "quorum"


def test_a_value_is_looked_at_before_whether_the_type_has_the_argument() -> None:
    arguments = {"x-queue-type": "quorum", "x-max-priority": 1, "x-message-ttl": -1}
    assert refusal(release("4.0"), arguments=arguments).endswith("{value_negative,-1}")


def test_the_arguments_of_4_name_the_type_and_are_sorted() -> None:
    """The virtual host's default type, unless the queue cannot be of it."""
    given = {"x-max-length": 5, "x-expires": 60_000}
    kept = {"x-expires": 60_000, "x-max-length": 5, "x-queue-type": "quorum"}
    queue = declared(release("4.0"), arguments=given, default_queue_type="quorum")
    assert (queue.type, list(queue.arguments.items())) == ("quorum", list(kept.items()))
    exclusive = declared(release("4.0"), exclusive=True, default_queue_type="quorum")
    assert (exclusive.type, exclusive.durable, exclusive.arguments) == ("classic", False, {"x-queue-type": "classic"})
    assert declared(release("3.10"), arguments=given).arguments == given
    assert declared(release("3.10"), exclusive=True, default_queue_type="quorum").arguments == {}
    assert augmented_arguments({}, None, release("4.3")) == {"x-queue-type": "classic"}


def test_names_are_the_clients_own_or_the_servers() -> None:
    assert refusal(release("4.3"), "amq.q") == "ACCESS_REFUSED - queue name 'amq.q' contains reserved prefix 'amq.*'"
    quorum = {"x-queue-type": "quorum"}
    assert declared(release("3.8"), "amq.gen-1", server_named=True, arguments=quorum).name == "amq.gen-1"
    for name in RELEASES[1:]:
        assert refusal(release(name), "amq.gen-1", server_named=True, arguments=quorum) == (
            "PRECONDITION_FAILED - Cannot declare a server-named queue for type rabbit_quorum_queue"
        )


def test_what_a_server_does_not_survive_ends_the_connection() -> None:
    stream = {"x-queue-type": "stream", "x-max-age": "h"}
    assert refusal(release("4.0"), arguments=stream) == "INTERNAL_ERROR"
    assert refusal(release("4.3"), arguments=stream).endswith(": invalid_max_age")
    with pytest.raises(Refusal) as refused:
        check_server_named({"x-queue-type": "mqtt"}, release("4.0"))
    assert (refused.value.code, refused.value.ends_connection) == (541, True)
    with pytest.raises(Refusal, match="unknown queue type 'mqtt'"):
        check_server_named({"x-queue-type": "mqtt"}, release("4.3"))


def test_a_long_text_is_cut_to_what_a_short_string_holds() -> None:
    text = refusal(release("4.3"), "n" * 250, arguments={"x-max-length": -1})
    assert len(text.encode()) == 255
    assert text.endswith("nnn...")
    denied = refusal(release("4.3"), arguments={"x-queue-master-locator": "min-masters"})
    assert denied.startswith("INTERNAL_ERROR - Feature `queue_master_locator` is deprecated.\n")
    assert denied.endswith("actual version to be determined.\nTo con...")


# Redeclared queues


def inequivalence(existing: Queue, rules: Release, **asked: Any) -> str | None:
    fields = {"durable": not asked.get("exclusive"), "auto_delete": False, "exclusive": False, "arguments": {}, **asked}
    try:
        check_queue_equivalence(existing, vhost="/", release=rules, **fields)
    except Refusal as refused:
        return refused.explanation
    return None


def test_a_redeclaration_may_write_numbers_otherwise() -> None:
    queue = declared(release("4.3"), arguments={"x-max-length": 5})
    assert inequivalence(queue, release("4.3"), arguments={"x-max-length": Long(5), "x-unheard-of": 1}) is None
    assert inequivalence(queue, release("4.3"), arguments={"x-max-length": 5, "x-queue-type": "classic"}) is None
    assert inequivalence(queue, release("4.3"), arguments={"x-max-length": Short(6)}) == (
        "inequivalent arg 'x-max-length' for queue 'q' in vhost '/': received '6' but current is '5'"
    )


def test_the_first_difference_in_the_types_order_is_reported() -> None:
    asked = {"x-dead-letter-exchange": "e", "x-message-ttl": 5}
    classic, quorum = declared(release("3.10")), declared(release("3.10"), arguments={"x-queue-type": "quorum"})
    assert inequivalence(classic, release("3.10"), arguments=asked) == (
        "inequivalent arg 'x-message-ttl' for queue 'q' in vhost '/': received the value '5' of type 'signedint'"
        " but current is none"
    )
    said = inequivalence(quorum, release("3.10"), arguments={**asked, "x-queue-type": "quorum"})
    assert said is not None
    assert said.startswith("inequivalent arg 'x-dead-letter-exchange'")
    assert inequivalence(quorum, release("3.10"), durable=False, auto_delete=True) == (
        "inequivalent arg 'durable' for queue 'q' in vhost '/': received 'false' but current is 'true'"
    )


def test_ages_are_compared_in_milliseconds_by_4_3() -> None:
    for name, same in (("4.0", False), ("4.3", True)):
        stream = declared(release(name), arguments={"x-queue-type": "stream", "x-max-age": "12M"})
        said = inequivalence(stream, release(name), arguments={"x-queue-type": "stream", "x-max-age": "360D"})
        assert (said is None) is same
        other = inequivalence(stream, release(name), arguments={"x-queue-type": "stream", "x-max-age": 5})
        assert other is not None
        assert other.endswith(f"received '5' but current is '{31_104_000_000 if same else '12M'}'")


def test_an_exclusive_queue_is_no_other() -> None:
    queue = declared(release("4.3"), exclusive=True)
    assert inequivalence(queue, release("4.3"), exclusive=True) is None
    with pytest.raises(Refusal) as refused:
        check_queue_equivalence(
            queue, vhost="/", durable=True, auto_delete=False, exclusive=False, arguments={}, release=release("4.3")
        )
    assert refused.value.text == amqp_errors.locked_queue("q", "/").text


# Exchanges and bindings


def exchange_refusal(name: str, rules: Release, existing: Exchange | None = None, **asked: Any) -> tuple[int, str]:
    fields = {"type": "direct", "durable": True, "auto_delete": False, "internal": False, "arguments": {}, **asked}
    check = partial(declared_exchange, name) if existing is None else partial(check_exchange_equivalence, existing)
    with pytest.raises(Refusal) as refused:
        check(vhost="/", release=rules, **fields)
    return refused.value.code, refused.value.explanation


def test_exchanges_refuse_in_the_servers_order() -> None:
    new = release("4.3")
    assert exchange_refusal("", new, type="x-odd") == (406, "unknown exchange type 'x-odd'")
    assert exchange_refusal("", release("3.8"), type="queue") == (503, "invalid exchange type 'queue'")
    assert exchange_refusal("", new) == (403, "operation not permitted on the default exchange")
    assert exchange_refusal("amq.x", new) == (403, "exchange name 'amq.x' contains reserved prefix 'amq.*'")
    assert exchange_refusal("x", new, arguments={"alternate-exchange": 5}) == (
        406,
        "invalid type 'signedint' for arg 'alternate-exchange' in exchange 'x' in vhost '/'",
    )


def test_a_redeclared_exchange_is_compared() -> None:
    local = Exchange(name="x", type="x-local-random", arguments={"alternate-exchange": "a"})
    start = "inequivalent arg '{}' for exchange 'x' in vhost '/': "
    assert exchange_refusal("x", release("4.3"), local) == (
        406,
        start.format("type") + "received 'direct' but current is ''x-local-random''",
    )
    assert exchange_refusal("x", release("4.3"), local, type="x-local-random") == (
        406,
        start.format("alternate-exchange") + "received none but current is the value 'a' of type 'longstr'",
    )


@pytest.mark.parametrize(
    ("exchange", "key", "arguments", "name", "text"),
    [
        ("topic", "#.a.#.b.#", {}, "4.3", "Topic binding key '#.a.#.b.#' uses 3 '#' wildcards, at most 2 are allowed"),
        ("headers", "", {"x-match": ""}, "3.8", "Invalid x-match field value <<>>; expected all or any"),
        ("headers", "", {"x-match": [1, "a"]}, "4.3",
         'Invalid x-match field type array (value [{signedint,1},{longstr,<<"a">>}]); expected longstr'),
        ("x-local-random", "k", {}, "4.3", "Non empty binding 'k' key not permitted"),
        ("x-local-random", "", {}, "4.3", "Queue type rabbit_quorum_queue not valid for this exchange type"),
    ],
)  # fmt: skip
def test_bindings_that_an_exchange_does_not_take(
    exchange: str, key: str, arguments: dict[str, Any], name: str, text: str
) -> None:
    queue = Queue(name="q", type="quorum")
    with pytest.raises(Refusal) as refused:
        check_binding(Exchange(name="x", type=exchange), key, arguments, destination=queue, release=release(name))
    assert refused.value.text == PRECONDITION_FAILED + text


# Consumers


@pytest.mark.parametrize(
    ("kind", "arguments", "name", "text"),
    [
        ("classic", {"x-priority": "5"}, "3.8", ": {unacceptable_type,longstr}"),
        ("classic", {"x-stream-offset": 0}, "4.0", " of queue type rabbit_classic_queue"),
        ("quorum", {"x-consumer-timeout": -1}, "4.3", ": {value_negative,-1}"),
        ("stream", {"x-stream-offset": "soon"}, "4.3", ': {invalid_stream_offset_arg,{longstr,<<"soon">>}}'),
    ],
)
def test_consumer_arguments_that_are_refused(kind: str, arguments: dict[str, Any], name: str, text: str) -> None:
    key = next(iter(arguments))
    with pytest.raises(Refusal) as refused:
        check_consumer_arguments(Queue(name="q", type=kind), arguments, vhost="/", release=release(name))
    assert refused.value.text == f"{PRECONDITION_FAILED}invalid arg '{key}' for queue 'q' in vhost '/'{text}"


@pytest.mark.parametrize(
    ("name", "kind"), [("3.8", "classic"), ("3.9", "quorum"), ("3.13", "classic"), ("3.13", "quorum")]
)
def test_a_credit_that_is_no_table_crashes_a_queue_that_reads_it(name: str, kind: str) -> None:
    check_credit(Queue(name="q", type=kind), {"x-credit": {"credit": 1}}, release(name))
    with pytest.raises(Refusal) as refused:
        check_credit(Queue(name="q", type=kind), {"x-credit": 5}, release(name))
    assert (refused.value.code, refused.value.ends_connection) == (541, True)


@pytest.mark.parametrize(("name", "kind"), [("3.8", "quorum"), ("3.10", "stream"), ("4.0", "classic")])
def test_no_other_queue_looks_at_a_credit(name: str, kind: str) -> None:
    check_credit(Queue(name="q", type=kind), {"x-credit": 5}, release(name))


def test_consumer_arguments_that_pass() -> None:
    for kind, arguments in (
        ("classic", {"x-priority": Long(5), "x-unheard-of": "x"}),
        ("stream", {"x-stream-offset": "first"}),
        ("stream", {"x-stream-offset": "1h"}),
    ):
        check_consumer_arguments(Queue(name="q", type=kind), arguments, vhost="/", release=release("4.3"))
    check_consumer_arguments(Queue(name="q"), {"x-stream-offset": "odd"}, vhost="/", release=release("3.8"))


def test_an_offset_of_another_type_fails_in_the_stream() -> None:
    check_stream_offset({"x-stream-offset": 5})
    with pytest.raises(Refusal, match=r"^$"):
        check_stream_offset({"x-stream-offset": True})


# Refusals of the channel


@pytest.mark.parametrize(
    ("refused", "text"),
    [
        (amqp_errors.no_queue("q", "/"), "NOT_FOUND - no queue 'q' in vhost '/'"),
        (amqp_errors.system_exchange("amq.direct", "/"),
         "ACCESS_REFUSED - deletion of system exchange 'amq.direct' in vhost '/' not allowed"),
        (amqp_errors.conditional_delete("if-empty", "q", "/"),
         "NOT_IMPLEMENTED - cannot delete queue 'q' in vhost '/'. queue.delete operations with if-empty flag set are"
         " not supported by quorum queues"),
        (amqp_errors.message_too_large(16_777_217, 16_777_216),
         "PRECONDITION_FAILED - message size 16777217 is larger than configured max size 16777216"),
        (amqp_errors.wrong_sender_selected_type("BCC", "table"),
         'PRECONDITION_FAILED - invalid message: {unacceptable_type_in_header,"BCC",table}'),
        (amqp_errors.stream_without_prefetch("s", "/", release("3.10")),
         "PRECONDITION_FAILED - consumer prefetch count is not set for 'queue 's' in vhost '/''"),
        (amqp_errors.stream_without_prefetch("s", "/", release("4.0")),
         "PRECONDITION_FAILED - consumer prefetch count is not set for stream queue 's' in vhost '/'"),
        (amqp_errors.stream_without_acknowledgements("s", "/", release("3.10")),
         "NOT_IMPLEMENTED - automatic acknowledgement not supported by stream queues queue 's' in vhost '/'"),
        (amqp_errors.no_vhost("v"), "NOT_ALLOWED - vhost v not found"),
    ],
)  # fmt: skip
def test_texts_of_the_channel(refused: Refusal, text: str) -> None:
    assert refused.text == text
