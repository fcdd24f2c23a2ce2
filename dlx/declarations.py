"""Check declarations and redeclarations of queues and exchanges as RabbitMQ does: in its order and with its words.

A server looks at a declaration of a queue in this order: a name it is to make up itself
(``check_server_named``) or one that is reserved, the permission to configure the
queue, then either whether the queue that exists is the same
(``check_queue_equivalence``), or (until 3.12) the virtual host's limit (``check_queue_limit``),
the type of the dead-letter exchange (``check_dead_letter_exchange_type``), the permissions
that one needs, and all else (``declared_queue``, which begins with these checks too).

Source: rabbit_channel.erl handle_method queue.declare; rabbit_amqqueue.erl
check_declare_arguments, augment_declare_args, assert_equivalence; rabbit_quorum_queue.erl,
rabbit_stream_queue.erl, rabbit_classic_queue.erl declare; rabbit_misc.erl
assert_args_equivalence; live servers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import chain
from typing import Any

from dlx import argument_values as values
from dlx.amqp_errors import (
    Refusal,
    default_exchange,
    explained,
    internal_error,
    locked_queue,
    queue_limit,
    reserved_name,
    resource,
)
from dlx.argument_values import Check
from dlx.consistent_hash import HASH_HEADER, HASH_PROPERTY, PROPERTIES
from dlx.delays import X_DELAYED_TYPE
from dlx.erlang_printing import Atom, field_term, printed
from dlx.field_values import type_name
from dlx.releases import Release
from dlx.server_plugins import CONSISTENT_HASH, DELAYED, FEDERATION_UPSTREAM, RECENT_HISTORY
from dlx.settings import KEYS
from dlx.topology import CLASSIC, QUORUM, STREAM, Arguments, Exchange, Queue

_TYPE = "x-queue-type"
_LOCATOR = "x-queue-master-locator"
_DEAD_LETTER_EXCHANGE = "x-dead-letter-exchange"
_MAX_SEGMENT_BYTES = 3_000_000_000
_LOCATOR_DENIED = (
    "Feature `queue_master_locator` is deprecated.\nBy default, this feature is not permitted anymore.\nThe feature"
    " will be removed from a future major RabbitMQ version, regardless of the configuration; actual version to be"
    " determined.\nTo continue using this feature when it is not permitted by default, set the following parameter in"
    ' your configuration:\n    "deprecated_features.permit.queue_master_locator = true"'
)

# The order in which the arguments of a new queue are checked.
CHECKS: tuple[tuple[str, Check], ...] = (
    ("x-expires", values.expires),
    ("x-message-ttl", values.message_ttl),
    (_DEAD_LETTER_EXCHANGE, values.string),
    ("x-dead-letter-routing-key", values.dead_letter_routing_key),
    ("x-dead-letter-strategy", values.dead_letter_strategy),
    ("x-max-length", values.not_negative),
    ("x-max-length-bytes", values.not_negative),
    ("x-max-in-memory-length", values.not_negative),
    ("x-max-in-memory-bytes", values.not_negative),
    ("x-max-priority", values.max_priority),
    ("x-overflow", values.overflow),
    ("x-queue-mode", values.queue_mode),
    ("x-queue-version", values.queue_version),
    ("x-single-active-consumer", values.boolean),
    ("x-consumer-timeout", values.not_negative),
    ("x-consumer-disconnected-timeout", values.not_negative),
    (_TYPE, values.queue_type),
    ("x-quorum-initial-group-size", values.positive),
    ("x-max-age", values.max_age),
    ("x-stream-max-segment-size-bytes", values.not_negative),
    ("x-stream-filter-size-bytes", values.not_negative),
    ("x-initial-cluster-size", values.positive),
    ("x-queue-leader-locator", values.leader_locator),
)
# The order in which the arguments of a queue that exists are compared.
_COMPARED = {
    CLASSIC: (
        "x-expires", "x-message-ttl", "x-dead-letter-exchange", "x-dead-letter-routing-key", "x-max-length",
        "x-max-length-bytes", "x-max-priority", "x-overflow", "x-queue-mode", "x-queue-version",
        "x-single-active-consumer", "x-queue-type", "x-queue-master-locator", "x-queue-leader-locator",
    ),
    QUORUM: (
        "x-dead-letter-exchange", "x-dead-letter-routing-key", "x-dead-letter-strategy", "x-expires",
        "x-max-length", "x-max-length-bytes", "x-max-in-memory-length", "x-max-in-memory-bytes", "x-overflow",
        "x-single-active-consumer", "x-queue-type", "x-quorum-initial-group-size", "x-delivery-limit",
        "x-message-ttl", "x-queue-leader-locator", "x-consumer-disconnected-timeout", "x-consumer-timeout",
        "x-delayed-retry-type", "x-delayed-retry-min", "x-delayed-retry-max",
    ),
    STREAM: (
        "x-max-length-bytes", "x-queue-type", "x-max-age", "x-stream-max-segment-size-bytes",
        "x-stream-filter-size-bytes", "x-initial-cluster-size", "x-queue-leader-locator",
    ),
}  # fmt: skip
ARGUMENTS = frozenset(
    {*(name for name, _ in CHECKS), *(f"x-{key}" for key in KEYS), *chain.from_iterable(_COMPARED.values())}
)
"""The names of all arguments that mean something to a queue, in one release or another."""


def queue_arguments(kind: str, release: Release) -> frozenset[str]:
    """Return the arguments that a queue of that type has in that release."""
    by_type = {
        CLASSIC: release.classic_queue_arguments,
        QUORUM: release.quorum_queue_arguments,
        STREAM: release.stream_queue_arguments,
    }
    return by_type[kind]


def declared_queue(
    name: str,
    *,
    vhost: str,
    durable: bool,
    auto_delete: bool,
    exclusive: bool,
    arguments: Arguments,
    release: Release,
    default_queue_type: str | None = None,
    server_named: bool = False,
    limit_reached: int | None = None,
) -> Queue:
    """Return the queue that a declaration makes, with its type and with the arguments that the release shows.

    ``default_queue_type`` is the virtual host's, ``limit_reached`` its limit of queues where that leaves no room;
    ``server_named`` says that the server made up the name.
    ``durable`` is whether it will be: by AMQP 0-9-1 an exclusive queue never is. Raises ``Refusal``.
    """
    default_queue_type = default_queue_type if default_queue_type in release.queue_types else None
    arguments = augmented_arguments(arguments, default_queue_type, release, durable, auto_delete)
    if server_named:
        check_server_named(arguments, release)
    elif name.startswith("amq."):
        raise reserved_name("queue", name)
    if release.queue_limit_checked == "by the channel":
        check_queue_limit(name, vhost, limit_reached)
    check_dead_letter_exchange_type(name, vhost, arguments)
    kind = _checked_arguments(name, vhost, arguments, default_queue_type, release)
    queue = Queue(
        name=name,
        type=kind,
        durable=durable,
        auto_delete=auto_delete,
        exclusive=exclusive,
        arguments=arguments,
    )
    check_queue_limit(name, vhost, limit_reached)
    _check_declarable(queue, vhost, release)
    return queue


def imported_queue(
    name: str,
    *,
    vhost: str,
    durable: bool,
    auto_delete: bool,
    arguments: Arguments,
    release: Release,
    default_queue_type: str | None = None,
    limit_reached: int | None = None,
    silent: bool = True,
) -> Queue | None:
    """Return the queue that a definitions document makes; ``None`` where the release silently leaves it out.

    ``default_queue_type`` and ``limit_reached`` as for ``declared_queue``. Raises ``Refusal``; unless ``silent``, also
    that of a declaration where an import leaves the queue out.
    """
    default_queue_type = default_queue_type if default_queue_type in release.queue_types else None
    arguments = augmented_arguments(arguments, default_queue_type, release, durable, auto_delete)
    kind = _checked_arguments(name, vhost, arguments, default_queue_type, release)
    queue = Queue(name=name, type=kind, durable=durable, auto_delete=auto_delete, arguments=arguments)
    if limit_reached is not None and release.queue_limit_checked == "by every declaration":
        return None
    try:
        _check_declarable(queue, vhost, release)
    except Refusal as refusal:
        if not silent or release.definitions_impossible_queues == "refused" or refusal.is_crash:
            raise
        return None
    return queue


def check_queue_limit(name: str, vhost: str, limit_reached: int | None) -> None:
    """Refuse a new queue where the virtual host's limit leaves no room for one. Raises ``Refusal``."""
    if limit_reached is not None:
        raise queue_limit(name, vhost, limit_reached)


def augmented_arguments(
    arguments: Arguments,
    default_queue_type: str | None,
    release: Release,
    durable: bool = True,
    auto_delete: bool = False,
) -> Arguments:
    """Return the arguments with which the release keeps a queue: from 4.0 they always name its type.

    ``durable`` is whether it will be. A default type that does not fit these properties gives way to classic.
    """
    adds = release.queue_type_argument
    if _TYPE in arguments or adds == "as declared":
        return arguments
    if not default_queue_type and adds != "always":
        return arguments
    kind = default_queue_type or CLASSIC
    if kind != CLASSIC and (not durable or auto_delete):
        if adds == "where the default fits":
            return arguments
        kind = CLASSIC
    return _sorted({**arguments, _TYPE: kind})


def _sorted(arguments: Arguments) -> Arguments:
    """Return the arguments sorted by key, as a server returns a table that it adds to."""
    return dict(sorted(arguments.items(), key=lambda item: item[0].encode(errors="surrogateescape")))


def check_server_named(arguments: Arguments, release: Release) -> None:
    """Raise ``Refusal`` where the server makes up no names for queues of the type."""
    if release.server_named_queues == "all types":
        return
    term = field_term(arguments.get(_TYPE, CLASSIC))
    kind = _text(term)
    if kind == CLASSIC or kind in release.queue_types_meaning_default:
        return
    if kind in release.queue_types:
        raise Refusal(406, f"Cannot declare a server-named queue for type rabbit_{kind}_queue")
    if release.server_named_queues == "classic" and isinstance(term, bytes | Atom):
        raise Refusal(406, f"unknown queue type '{kind}'")
    raise internal_error()


def check_dead_letter_exchange_type(name: str, vhost: str, arguments: Arguments) -> None:
    """Raise ``Refusal`` where a new queue names its dead-letter exchange by anything but a string."""
    check_name_argument(_DEAD_LETTER_EXCHANGE, resource("queue", name, vhost), arguments)


def check_name_argument(key: str, declared: str, arguments: Arguments) -> None:
    """Raise ``Refusal`` where the argument is given and is not a string, as an exchange's name must be."""
    if key in arguments:
        kind = type_name(arguments[key])
        if kind != "longstr":
            raise Refusal(406, f"invalid type '{kind}' for arg '{key}' in {declared}")


def _checked_arguments(
    name: str, vhost: str, arguments: Arguments, default_queue_type: str | None, release: Release
) -> str:
    """Check the arguments' types and values, then that the queue's type has them; return the queue's type."""
    if not release.arguments_checked_by_type:
        return _checked_arguments_of_all_types(name, vhost, arguments, release)
    _check_value(_TYPE, values.queue_type, name, vhost, arguments, release)
    kind = arguments.get(_TYPE, CLASSIC)
    if kind in release.queue_types_meaning_default:
        kind, arguments = default_queue_type or CLASSIC, _sorted(arguments)
    own = queue_arguments(kind, release)
    for key, check in CHECKS:
        if key in own:
            _check_value(key, check, name, vhost, arguments, release)
    known = frozenset().union(*(queue_arguments(each, release) for each in release.queue_types))
    for key in arguments:
        if key in known - own:
            text = f"invalid arg '{key}' for {resource('queue', name, vhost)} of queue type rabbit_{kind}_queue"
            raise Refusal(406, text)
    return str(kind)


def _checked_arguments_of_all_types(name: str, vhost: str, arguments: Arguments, release: Release) -> str:
    for key, check in CHECKS:
        if key in release.classic_queue_arguments:
            _check_value(key, check, name, vhost, arguments, release)
    kind = str(arguments.get(_TYPE, CLASSIC))
    missing = release.classic_queue_arguments - queue_arguments(kind, release)
    for key in ("x-expires", "x-message-ttl", "x-max-priority", "x-queue-mode", "x-overflow"):
        if key in missing and key in arguments:
            raise Refusal(406, f"invalid arg '{key}' for {resource('queue', name, vhost)}")
    return kind


def _check_value(key: str, check: Check, name: str, vhost: str, arguments: Arguments, release: Release) -> None:
    if key not in arguments:
        return
    why = check(arguments[key], arguments, release)
    if why is not None:
        text = f"invalid arg '{key}' for {resource('queue', name, vhost)}: "
        raise Refusal(406, explained(text, why, release, values.LINE), text + values.in_words(why))


def _check_declarable(queue: Queue, vhost: str, release: Release) -> None:
    if queue.type == CLASSIC:
        if _LOCATOR in queue.arguments:
            _check_locator(queue, release)
        return
    named = resource("queue", queue.name, vhost)
    for name, why in unfit_properties(queue):
        raise Refusal(406, f"invalid property '{name}' for {named}", why)
    if queue.type == QUORUM:
        _check_quorum_name(queue.name, vhost, release)
    if queue.type == STREAM:
        _check_stream(queue, release)


def unfit_properties(queue: Queue) -> Iterator[tuple[str, str]]:
    """Yield each property of a queue that its type does not allow: as a server calls it, and why in plain words."""
    if queue.type != CLASSIC:
        if queue.auto_delete:
            yield "auto-delete", f"{queue.type} queues cannot be auto-delete"
        if queue.exclusive:
            yield "exclusive-owner", f"{queue.type} queues cannot be exclusive"
        if not queue.durable:
            yield "non-durable", f"{queue.type} queues must be durable"


def _check_locator(queue: Queue, release: Release) -> None:
    if release.queue_master_locator == "denied":
        raise Refusal(541, _LOCATOR_DENIED)
    looked_up = release.queue_master_locator == "strategies" and (
        release.exclusive_queues_located or not queue.exclusive
    )
    if looked_up and not values.is_location_strategy(queue.arguments[_LOCATOR]):
        words = list(map(ord, "~p invalid queue-master-locator value"))
        wrong = (Atom("error"), words, [field_term(queue.arguments[_LOCATOR])])
        raise internal_error((Atom("case_clause"), wrong))


def _check_quorum_name(name: str, vhost: str, release: Release) -> None:
    together = ("%2F" if vhost == "/" else vhost) + "_" + name
    if release.quorum_name_most is not None and len(together) > release.quorum_name_most:
        raise internal_error()


def _check_stream(queue: Queue, release: Release) -> None:
    segment = queue.arguments.get("x-stream-max-segment-size-bytes")
    if segment is not None and segment > _MAX_SEGMENT_BYTES:
        raise Refusal(406, "Exceeded max value for x-stream-max-segment-size-bytes")
    key = "x-stream-filter-size-bytes"
    if key in queue.arguments and release.stream_filter_size_refusal:
        size = queue.arguments[key]
        if not (isinstance(size, int | float) and not isinstance(size, bool) and 16 <= size <= 255):
            raise Refusal(406, release.stream_filter_size_refusal)


def check_queue_equivalence(
    existing: Queue,
    *,
    vhost: str,
    durable: bool,
    auto_delete: bool,
    exclusive: bool,
    arguments: Arguments,
    release: Release,
    default_queue_type: str | None = None,
) -> None:
    """Raise ``Refusal`` where a declaration does not describe the queue that exists.

    ``durable`` is whether the queue would be: by AMQP 0-9-1 an exclusive one never is. The caller knows which
    connection owns an exclusive queue, and checks that first.
    """
    if existing.exclusive != exclusive:
        raise locked_queue(existing.name, vhost)
    arguments = augmented_arguments(arguments, default_queue_type, release, durable, auto_delete)
    named = resource("queue", existing.name, vhost)
    check_same("durable", existing.durable, durable, named)
    check_same("auto_delete", existing.auto_delete, auto_delete, named)
    keys: tuple[str, ...] = tuple(key for key, _ in CHECKS)
    if release.arguments_checked_by_type:
        keys = _COMPARED[existing.type]
    own = queue_arguments(existing.type if release.arguments_checked_by_type else CLASSIC, release)
    current, received = _compared(existing.arguments, release), _compared(arguments, release)
    for key in keys:
        if key in own:
            check_same_argument(key, current, received, named)


def _compared(arguments: Arguments, release: Release) -> Arguments:
    """Return the arguments as the release compares them: if it compares ages in ms, 12M equals 360D."""
    age = arguments.get("x-max-age")
    if release.max_age_compared == "as written" or not isinstance(age, str):
        return arguments
    age_ms = values.age_ms(age, release)
    return arguments if age_ms is None else {**arguments, "x-max-age": str(age_ms)}


def check_same(key: str, current: bool | str, received: bool | str, declared: str) -> None:
    """Raise ``Refusal`` where a property is received with another value than the one in force."""
    if current != received:
        raise _inequivalent(key, declared, f"'{_shown(received)}'", f"'{_shown(current)}'")


def check_same_argument(key: str, current: Arguments, received: Arguments, declared: str) -> None:
    """Raise ``Refusal`` where an argument is received with another value than the one in force.

    Types do not count: 5 is 5 in 8 bits and in 64. A classic queue may name its type or
    leave it out.
    """
    if key in current and key in received:
        old, new = field_term(current[key]), field_term(received[key])
        if repr(old) != repr(new):
            raise _inequivalent(key, declared, _quoted(new), _quoted(old))
    elif key in current or key in received:
        if key == _TYPE and {**current, **received}[key] == CLASSIC:
            return
        raise _inequivalent(key, declared, _described(key, received), _described(key, current))


def _inequivalent(key: str, declared: str, received: str, current: str) -> Refusal:
    return Refusal(406, f"inequivalent arg '{key}' for {declared}: received {received} but current is {current}")


def _quoted(term: Any) -> str:
    """Return a value as an error text quotes it. A server takes void for a missing value, and crashes on a decimal."""
    if isinstance(term, tuple):
        raise internal_error()
    return "none" if term == "undefined" and isinstance(term, Atom) else f"'{_text(term)}'"


def _described(key: str, arguments: Arguments) -> str:
    if key not in arguments:
        return "none"
    value = arguments[key]
    return f"the value '{_text(field_term(value))}' of type '{type_name(value)}'"


def _shown(property_value: bool | str) -> str:
    """Print a value as an atom: ``true``, ``direct``, and with further quotes ``'x-local-random'``."""
    text = property_value if isinstance(property_value, str) else str(property_value).lower()
    return printed(Atom(text))


def _text(term: Any) -> str:
    return term.decode(errors="surrogateescape") if isinstance(term, bytes) else printed(term)


# Check declarations and redeclarations of exchanges as RabbitMQ does: in its order and with its words.
#
# A server looks at the type first (``check_type``), then whether it is the default
# exchange (``check_not_default``), then at the permission to configure it, and then
# either whether the exchange that exists is the same (``check_exchange_equivalence``),
# or at the name and at the alternate exchange (``declared_exchange``), for which
# permissions are needed in turn.
#
# Source: rabbit_channel.erl handle_method exchange.declare; rabbit_exchange.erl
# check_type, assert_equivalence; live servers.


_ALTERNATE_EXCHANGE = "alternate-exchange"
EXCHANGE_ARGUMENTS = frozenset({_ALTERNATE_EXCHANGE})
"""The names of all arguments that mean something to an exchange, besides those of plugins."""
HISTORY_LENGTH = "x-recent-history-length"
"""The argument that says how many messages an x-recent-history exchange keeps; 20 unless it says otherwise."""
# Names that Erlang knows for other reasons are called invalid; of all others it says that they are unknown.
_KNOWN_WORDS = frozenset(
    (
        "", "a", "b", "all", "bar", "classic", "default", "exchange", "false", "foo", "header", "internal", "match",
        "multicast", "none", "null", "queue", "quorum", "rabbit", "random", "stream", "system", "test", "true", "type",
        "undefined", "unknown", "x",
    )
)  # fmt: skip


def declared_exchange(
    name: str,
    *,
    vhost: str,
    type: str,
    durable: bool,
    auto_delete: bool,
    internal: bool,
    arguments: Arguments,
    release: Release,
    types: Collection[str] | None = None,
) -> Exchange:
    """Return the exchange that a declaration makes, of one of the ``types``. Raises ``Refusal``."""
    check_type(type, release, types)
    check_not_default(name)
    if name.startswith("amq."):
        raise reserved_name("exchange", name)
    check_name_argument(_ALTERNATE_EXCHANGE, resource("exchange", name, vhost), arguments)
    check_exchange_arguments(type, arguments, release, types)
    return Exchange(
        name=name,
        type=type,
        durable=durable,
        auto_delete=auto_delete,
        internal=internal,
        arguments=arguments,
    )


def check_exchange_arguments(
    type: str, arguments: Arguments, release: Release, types: Collection[str] | None = None
) -> None:
    """Raise ``Refusal`` for arguments with which the type of exchange cannot be declared.

    Source: validate of rabbit_exchange_type_consistent_hash.erl, rabbit_exchange_type_delayed_message.erl,
    rabbit_exchange_type_recent_history.erl and rabbit_federation_upstream_exchange.erl; live servers.
    """
    if type == DELAYED:
        named = _checked_delayed_type(arguments, release, types)
        check_exchange_arguments(named, arguments, release, types)
    elif type == CONSISTENT_HASH:
        _check_hash_arguments(arguments)
    elif type == RECENT_HISTORY and HISTORY_LENGTH in arguments:
        length = arguments[HISTORY_LENGTH]
        if type_name(length) not in ("byte", "short", "signedint", "long") or length <= 0:
            text = explained("Invalid argument ", field_term(length), release)
            raise Refusal(406, f"{text}, '{HISTORY_LENGTH}' must be a positive integer")
    elif type == FEDERATION_UPSTREAM and "x-max-hops" not in arguments:
        raise Refusal(406, "Argument x-max-hops missing")


def _checked_delayed_type(arguments: Arguments, release: Release, types: Collection[str] | None) -> str:
    named = arguments.get(X_DELAYED_TYPE)
    if isinstance(named, bytes):
        named = named.decode(errors="surrogateescape")
    if named == DELAYED:
        raise Refusal(406, f"Invalid argument, '{DELAYED}' can't be used for '{X_DELAYED_TYPE}'")
    if not isinstance(named, str):
        raise Refusal(406, f"Invalid argument, '{X_DELAYED_TYPE}' must be an existing exchange type")
    check_type(named, release, types)
    return named


def _check_hash_arguments(arguments: Arguments) -> None:
    given = [arguments[name] for name in (HASH_HEADER, HASH_PROPERTY) if name in arguments]
    for value in given:
        if type_name(value) != "longstr":
            raise internal_error((Atom("case_clause"), (Atom(type_name(value)), field_term(value))))
    if len(given) > 1:
        raise Refusal(406, f"{HASH_HEADER} and {HASH_PROPERTY} are mutually exclusive")
    if HASH_PROPERTY in arguments and given[0] not in PROPERTIES:
        raise Refusal(406, f"Unsupported property: {_text(field_term(given[0]))}")


def check_type(type: str, release: Release, types: Collection[str] | None = None) -> None:
    """Raise ``Refusal`` for a type that is none of the ``types``: by default, those without plugins."""
    if type not in (release.exchange_types if types is None else types):
        adjective = "invalid" if type in _KNOWN_WORDS else "unknown"
        raise Refusal(release.unknown_exchange_type_code, f"{adjective} exchange type '{type}'")


def check_not_default(name: str) -> None:
    """Raise ``Refusal`` for the default exchange, which clients may neither declare nor bind."""
    if not name:
        raise default_exchange()


def check_exchange_equivalence(
    existing: Exchange,
    *,
    vhost: str,
    type: str,
    durable: bool,
    auto_delete: bool,
    internal: bool,
    arguments: Arguments,
    release: Release,
    types: Collection[str] | None = None,
) -> None:
    """Raise ``Refusal`` where a declaration does not describe the exchange that exists."""
    check_type(type, release, types)
    named = resource("exchange", existing.name, vhost)
    check_same("type", existing.type, type, named)
    check_same("durable", existing.durable, durable, named)
    check_same("auto_delete", existing.auto_delete, auto_delete, named)
    check_same("internal", existing.internal, internal, named)
    check_same_argument(_ALTERNATE_EXCHANGE, existing.arguments, arguments, named)
