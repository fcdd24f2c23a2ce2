"""Check declarations and redeclarations of exchanges as RabbitMQ does: in its order and with its words.

A server looks at the type first (``check_type``), then whether it is the default
exchange (``check_not_default``), then at the permission to configure it, and then
either whether the exchange that exists is the same (``check_exchange_equivalence``),
or at the name and at the alternate exchange (``declared_exchange``), for which
permissions are needed in turn.

Source: rabbit_channel.erl handle_method exchange.declare; rabbit_exchange.erl
check_type, assert_equivalence; live servers.
"""

from __future__ import annotations

from dlx.amqp_errors import Refusal, default_exchange, reserved_name, resource
from dlx.declarations import check_name_argument, check_same, check_same_argument
from dlx.releases import Release
from dlx.topology import Arguments, Exchange

_ALTERNATE_EXCHANGE = "alternate-exchange"
ARGUMENTS = frozenset({_ALTERNATE_EXCHANGE})
"""The names of all arguments that mean something to an exchange, besides those of plugins."""
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
) -> Exchange:
    """Return the exchange that a declaration makes. Raises ``Refusal``."""
    check_type(type, release)
    check_not_default(name)
    if name.startswith("amq."):
        raise reserved_name("exchange", name)
    check_name_argument(_ALTERNATE_EXCHANGE, resource("exchange", name, vhost), arguments)
    return Exchange(
        name=name,
        type=type,
        durable=durable,
        auto_delete=auto_delete,
        internal=internal,
        arguments=arguments,
    )


def check_type(type: str, release: Release) -> None:
    """Raise ``Refusal`` for a type that the release does not have without plugins."""
    if type not in release.exchange_types:
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
) -> None:
    """Raise ``Refusal`` where a declaration does not describe the exchange that exists."""
    check_type(type, release)
    named = resource("exchange", existing.name, vhost)
    check_same("type", existing.type, type, named)
    check_same("durable", existing.durable, durable, named)
    check_same("auto_delete", existing.auto_delete, auto_delete, named)
    check_same("internal", existing.internal, internal, named)
    check_same_argument(_ALTERNATE_EXCHANGE, existing.arguments, arguments, named)
