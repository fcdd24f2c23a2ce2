"""The rows about declarations: which queues and exchanges, and with which arguments."""

from __future__ import annotations

from typing import Literal

from dlx.releases.rows import changed, since

_NONE: frozenset[str] = frozenset()
_EACH_QUEUE = {"x-expires", "x-message-ttl", "x-dead-letter-exchange", "x-dead-letter-routing-key", "x-overflow"}
_EACH_QUEUE |= {"x-max-length", "x-max-length-bytes", "x-single-active-consumer", "x-queue-type"}
_IN_MEMORY = {"x-max-in-memory-length", "x-max-in-memory-bytes", "x-quorum-initial-group-size"}
_CLASSIC = frozenset(_EACH_QUEUE | {"x-max-priority", "x-queue-mode"})
_CLASSIC_310 = _CLASSIC | {"x-queue-version", "x-queue-master-locator"}
_ALL_38 = _CLASSIC | _IN_MEMORY
_ALL_39 = _ALL_38 | {"x-max-age", "x-stream-max-segment-size-bytes", "x-initial-cluster-size", "x-queue-leader-locator"}
_QUORUM_38 = _ALL_38 - {"x-expires", "x-message-ttl", "x-max-priority", "x-queue-mode", "x-overflow"}
_QUORUM_310 = frozenset(
    _EACH_QUEUE | _IN_MEMORY | {"x-dead-letter-strategy", "x-delivery-limit", "x-queue-leader-locator"}
)
_QUORUM_43 = _QUORUM_310 | {
    "x-consumer-timeout",
    "x-consumer-disconnected-timeout",
    "x-delayed-retry-type",
    "x-delayed-retry-min",
    "x-delayed-retry-max",
}
_STREAM = frozenset(
    {"x-max-length-bytes", "x-queue-type", "x-max-age", "x-stream-max-segment-size-bytes", "x-initial-cluster-size"}
    | {"x-queue-leader-locator"}
)
_LOCATORS = frozenset({"client-local", "balanced", "random", "least-leaders"})
_EXCHANGES = frozenset({"direct", "fanout", "topic", "headers"})


class DeclarationRows:
    """The queues and exchanges that can be declared, and the arguments they take."""

    queue_types: frozenset[str] = since(
        "3.9", frozenset({"classic", "quorum", "stream"}), before=frozenset({"classic", "quorum"}),
        meaning="The queue types that exist.",
        evidence="live; rabbit_queue_type.erl",
    )
    queue_types_meaning_default: frozenset[str] = changed(
        {"3.13": frozenset({"undefined"}), "4.2": frozenset({"undefined", ""})}, before=_NONE,
        meaning="Values of x-queue-type that mean the virtual host's default type.",
        evidence="live; rabbit_amqqueue.erl maybe_inject_default_queue_type_shortcut_into_args",
    )
    queue_type_argument: Literal["as declared", "where the default fits", "default or classic", "always"] = changed(
        {"3.9": "where the default fits", "3.13": "default or classic", "4.0": "always"}, before="as declared",
        meaning=(
            "Whether the server adds an x-queue-type that the client did not declare: never; the virtual host's"
            " default type where the queue can be of it; that, or else classic; or always one of both."
        ),
        evidence="live; rabbit_amqqueue.erl augment_declare_args",
    )
    quorum_name_most: int | None = since(
        "3.10", None, before=255,
        meaning=(
            "How many characters the names of a virtual host and of a quorum queue may have together, with one between"
            " them; a longer declaration ends the connection with 541."
        ),
        evidence="live; rabbit_quorum_queue.erl qname_to_internal_name, which makes an atom of both until then",
        undecided=("3.9",),
    )
    server_named_queues: Literal["all types", "classic or internal error", "classic"] = changed(
        {"3.9": "classic or internal error", "4.3": "classic"}, before="all types",
        meaning=(
            "The queue types for which the server makes up a name, and how it answers for an unknown type."
        ),
        evidence="live; rabbit_amqqueue.erl is_server_named_allowed",
    )
    arguments_checked_by_type: bool = since(
        "3.10", True, before=False,
        meaning=(
            "Each queue type checks and compares the arguments that it knows; otherwise all types check the same, and"
            " a quorum queue refuses five of them."
        ),
        evidence=(
            "live; rabbit_amqqueue.erl check_declare_arguments; rabbit_quorum_queue.erl check_invalid_arguments (3.8.9)"
        ),
    )
    argument_errors: Literal["terms", "sentences"] = since(
        "3.9", "sentences", before="terms",
        meaning='How a wrong argument is described: {unacceptable_type,longstr}, or "expected integer, got longstr".',
        evidence="live; rabbit_amqqueue.erl check_int_arg, check_queue_type",
    )
    classic_queue_arguments: frozenset[str] = changed(
        {"3.9": _ALL_39, "3.10": _CLASSIC_310, "4.0": _CLASSIC_310 | {"x-queue-leader-locator"}}, before=_ALL_38,
        meaning="The arguments that are checked and compared for a classic queue; until 3.9, for a queue of any type.",
        evidence="live; rabbit_classic_queue.erl capabilities",
    )
    quorum_queue_arguments: frozenset[str] = changed(
        {"3.9": _ALL_39, "3.10": _QUORUM_310, "4.3": _QUORUM_43}, before=_QUORUM_38,
        meaning="The arguments that a quorum queue knows; it refuses those of other types.",
        evidence="live; rabbit_quorum_queue.erl capabilities",
    )
    stream_queue_arguments: frozenset[str] = changed(
        {"3.9": _ALL_39, "3.10": _STREAM, "4.2": _STREAM | {"x-stream-filter-size-bytes"}}, before=_NONE,
        meaning="The arguments that a stream knows; it refuses those of other types.",
        evidence="live; rabbit_stream_queue.erl capabilities",
    )
    queue_mode_checked: bool = since(
        "4.3", False, before=True,
        meaning="x-queue-mode must be default or lazy; otherwise any value is taken.",
        evidence="live; rabbit_amqqueue.erl declare_args",
    )
    queue_versions: frozenset[int] = changed(
        {"3.10": frozenset({1, 2}), "4.3": frozenset({2})}, before=frozenset(),
        meaning="The values that x-queue-version may have.",
        evidence="live; rabbit_amqqueue.erl check_queue_version",
    )
    non_numeric_max_age: Literal["internal error", "refused"] = since(
        "4.2", "refused", before="internal error",
        meaning="How the server answers an x-max-age or x-stream-offset that does not begin with a digit.",
        evidence="live; rabbit_amqqueue.erl check_max_age",
    )
    max_age_compared: Literal["as written", "in milliseconds"] = since(
        "4.3", "in milliseconds", before="as written",
        meaning=(
            "How a stream's x-max-age is compared when the stream is declared again, and how the refusal shows it."
        ),
        evidence="live",
    )
    stream_filter_size_refusal: str | None = changed(
        {
            "3.13": "Invalid value for  x-stream-filter-size-bytes",
            "4.2": "Invalid value for x-stream-filter-size-bytes",
        },
        before=None,
        meaning="The text that refuses an x-stream-filter-size-bytes outside 16 to 255.",
        evidence="live; rabbit_stream_queue.erl check_filter_size",
    )
    leader_locators: frozenset[str] = changed(
        {"3.9": _LOCATORS - {"balanced"}, "3.10": _LOCATORS, "4.0": _LOCATORS | {"min-masters"}}, before=_NONE,
        meaning="The values that x-queue-leader-locator may have.",
        evidence="live; rabbit_queue_location.erl queue_leader_locators",
    )
    exclusive_queues_located: bool = since(
        "3.10", False, before=True,
        meaning=(
            "The x-queue-master-locator of an exclusive queue is looked up, too; where values are strategies, an"
            " unknown one ends the connection with 541."
        ),
        evidence="3.8 and 3.10 live, 3.9 by source: rabbit_classic_queue.erl declare",
    )
    exchange_types: frozenset[str] = changed(
        {
            "4.0": _EXCHANGES | {"x-local-random"},
            "4.3": _EXCHANGES | {"x-local-random", "x-modulus-hash"},
        },
        before=_EXCHANGES,
        meaning="The exchange types of a server without plugins.",
        evidence="live; rabbit_registry.erl lookup_all",
    )
    jms_selector_atoms_checked: bool = since(
        "4.3", True, before=False,
        meaning="A binding of an x-jms-topic exchange whose selector has a word that means nothing there is refused.",
        evidence="3.8, 3.10, 4.0 and 4.3 live",
        undecided=("4.1", "4.2"),
    )
    binding_kept_over_crash: bool = since(
        "4.0", True, before=False,
        meaning="A binding whose addition ends the connection with 541 is there all the same.",
        evidence="3.8, 3.10, 4.0 and 4.3 live: x-jms-topic without a selector, x-recent-history to an exchange",
        undecided=("3.11", "3.12", "3.13"),
    )
    unknown_exchange_type_code: int = since(
        "3.13", 406, before=503,
        meaning="The error code for an unknown exchange type: 503 closes the connection, 406 only the channel.",
        evidence="live; rabbit_exchange.erl check_type",
    )
