"""Dynamic shovels: what the runtime parameter of one says, and what is wrong with it, in a server's words.

A shovel takes messages out of a queue and publishes them again, to another queue or to an exchange.

Source: rabbit_shovel_parameters.erl, rabbit_amqp091_shovel.erl, rabbit_local_shovel.erl (4.3); live servers of 3.8,
3.10, 4.0 and 4.3 with the plugin.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, Literal, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from dlx.argument_values import wrong_values
from dlx.consumer_arguments import CHECKS as CONSUMED
from dlx.declarations import CHECKS as DECLARED
from dlx.declarations import queue_arguments
from dlx.erlang_printing import Atom, json_term, printed
from dlx.field_values import Long
from dlx.operator_errors import OperatorError, invalid_parameter, unforeseen_case
from dlx.parameter_validation import Member, is_integer, is_number, said, wrong_members, wrong_number
from dlx.releases import Release

COMPONENT = "shovel"
QUEUE_LENGTH = "queue-length"
PREFETCH = 1_000
RECONNECT_S = 5
LOCAL_HOSTS = frozenset({"", "localhost", "127.0.0.1", "::1"})
"""Hosts in the addresses of shovels that are the node itself, or its machine."""
_ACK_MODES = ("no-ack", "on-publish", "on-confirm")
_AMQP10_SOURCE = ("src-address", "src-delete-after", "src-prefetch-count")
_AMQP10_DESTINATION = (
    "dest-address", "dest-properties", "dest-application-properties", "dest-message-annotations",
    "dest-add-forward-headers", "dest-add-timestamp-header",
)  # fmt: skip
_TEXT_PROPERTIES = (
    "content_type", "content_encoding", "correlation_id", "reply_to", "expiration", "message_id", "type", "user_id",
    "app_id", "cluster_id",
)  # fmt: skip
_PORTS = {"amqp": 5672, "amqps": 5671}
_PORT = re.compile(r"(?:\[[^]]*\]|[^:]*):(.*)")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_NUMBER_PROPERTIES = ("delivery_mode", "priority", "timestamp")
MayEnter = Callable[[str], str | None]
"""Returns the name of the user who may not enter a virtual host; ``None`` for one who may."""


def host_and_port(host: str, port: int) -> str:
    """Return a server as ``HOST:PORT``, which is the same for all names of this machine."""
    return f"{'localhost' if host in LOCAL_HOSTS else host.lower()}:{port}"


class ShovelUri(NamedTuple):
    """The address of a server; without a ``host`` it is the node itself.

    ``url`` is the text, and ``shown`` the text without the password. ``user`` is ``None`` where the text names none.
    """

    url: str
    host: str
    port: int
    vhost: str
    user: str | None
    password: str
    shown: str

    @property
    def server(self) -> str:
        """The server, as ``HOST:PORT``."""
        return host_and_port(self.host, self.port)


class ShovelDefinition(NamedTuple):
    """What a shovel does.

    Attributes:
        source: the server to take messages from.
        destination: the server to publish to.
        queue: the queue to take them from; "" for one of the shovel's own, bound to ``exchange``.
        exchange: the exchange to bind a queue of its own to.
        key: the routing key of that binding.
        to_queue: the queue to publish to.
        to_exchange: the exchange to publish to, where there is no ``to_queue``.
        to_key: the routing key to publish with; ``None`` keeps the message's.
        ack_mode: when a message is acknowledged.
        prefetch: how many messages it may have at once.
        delete_after: how many messages end it, or ``queue-length``; ``None``: it goes on.
        reconnect_s: seconds until it connects again; 0: it does not.
        local: whether messages move inside the node, without a client's publish (protocol ``local``, 4.3).
        value: the parameter as it was given.
    """

    source: ShovelUri
    destination: ShovelUri
    queue: str
    exchange: str
    key: str
    to_queue: str | None
    to_exchange: str
    to_key: str | None
    ack_mode: Literal["no-ack", "on-publish", "on-confirm"]
    prefetch: int
    delete_after: int | Literal["queue-length"] | None
    reconnect_s: float
    local: bool
    value: Mapping[str, Any]

    def reaches(self, servers: Collection[str]) -> bool:
        """Return whether its source or its destination is one of these servers, given as ``HOST:PORT``."""
        return self.source.server in servers or self.destination.server in servers


def read_shovel(value: Mapping[str, Any]) -> ShovelDefinition:
    """Return what a parameter that is right says."""
    queue, to_queue = value.get("src-queue"), value.get("dest-queue")
    ends = value.get("src-delete-after", value.get("delete-after", "never"))
    return ShovelDefinition(
        source=_uri(value["src-uri"]),
        destination=_uri(value["dest-uri"]),
        queue=queue or "",
        exchange=value.get("src-exchange", ""),
        key=value.get("src-exchange-key", "#"),
        to_queue=to_queue,
        to_exchange=value.get("dest-exchange", ""),
        to_key=to_queue if to_queue is not None else value.get("dest-exchange-key"),
        ack_mode=value.get("ack-mode", "on-confirm"),
        prefetch=max(0, int(value.get("src-prefetch-count", value.get("prefetch-count", PREFETCH)))),
        delete_after=None if ends == "never" else ends,
        reconnect_s=max(0, value.get("reconnect-delay", RECONNECT_S)),
        local="local" in (value.get("src-protocol"), value.get("dest-protocol")),
        value=value,
    )


def _uri(given: str | list[str]) -> ShovelUri:
    """Return the first of the addresses: a server takes any of them."""
    text = given if isinstance(given, str) else next(iter(given), "amqp://")
    parts = urlsplit(text)
    vhost = unquote(parts.path[1:]) if parts.path else "/"
    user = None if parts.username is None else unquote(parts.username)
    shown = text.replace(f"//{parts.netloc}", f"//{parts.netloc.rpartition('@')[2]}", 1)
    return ShovelUri(text, parts.hostname or "", _port(parts), vhost, user, unquote(parts.password or ""), shown)


def _port(parts: SplitResult) -> int:
    """Return the port of an address; the usual one where it has none, or what cannot be one."""
    try:
        given = parts.port
    except ValueError:
        given = None
    return given or _PORTS.get(parts.scheme, _PORTS["amqp"])


def shovelled_properties(
    definition: ShovelDefinition, delivered: Mapping[str, Any], name: str, vhost: str, cluster: str, now_us: int
) -> dict[str, Any]:
    """Return the properties with which a shovel publishes a message that it got with the properties ``delivered``.

    Args:
        definition: what the shovel does.
        delivered: the properties, ``headers`` among them.
        name: the shovel's.
        vhost: the virtual host of its parameter.
        cluster: the name of the cluster that it runs in.
        now_us: when, microseconds since 1970.
    """
    value, properties = definition.value, dict(delivered)
    properties |= value.get("dest-publish-properties", value.get("publish-properties", {}))
    added: dict[str, Any] = {}
    if value.get("dest-add-forward-headers", value.get("add-forward-headers", False)):
        named = {"shovelled-by": cluster, "shovel-type": "dynamic", "shovel-name": name, "shovel-vhost": vhost}
        before = (properties.get("headers") or {}).get("x-shovelled", [])
        added["x-shovelled"] = [named | _ways(definition), *before]
    if value.get("dest-add-timestamp-header", value.get("add-timestamp-header", False)):
        added["x-shovelled-timestamp"] = Long(now_us // 1_000_000)
    if added:
        properties["headers"] = {**(properties.get("headers") or {}), **added}
    return properties


def _ways(definition: ShovelDefinition) -> dict[str, str]:
    """Return where a shovel takes messages from and where they go to, as the header ``x-shovelled`` says it."""
    named = {
        "src-exchange": definition.exchange,
        "src-exchange-key": definition.value.get("src-exchange-key"),
        "src-queue": definition.queue,
        "dest-exchange": definition.to_exchange,
        "dest-exchange-key": definition.value.get("dest-exchange-key"),
        "dest-queue": definition.to_queue,
    }
    addresses = {"src-uri": definition.source.shown, "dest-uri": definition.destination.shown}
    return addresses | {name: each for name, each in named.items() if each}


def check_shovel(name: str, value: Any, release: Release, may_enter: MayEnter) -> None:
    """Raise ``OperatorError`` for a parameter that the release refuses, in its words."""
    if isinstance(value, str):
        raise unforeseen_case(value)
    given = value if isinstance(value, Mapping) else {}
    protocols = {side: given.get(f"{side}-protocol", "amqp091") for side in ("src", "dest")}
    if release.shovel_protocols_checked:
        known = ["amqp10", "amqp091", "local"]
        unknown = (_wrong_choice(f"{side}-protocol", each, known) for side, each in protocols.items())
        _refuse([text for text in unknown if text])
    for each in protocols.values():
        if each not in ("amqp091", "amqp10") and not release.shovel_protocols_checked:
            raise unforeseen_case(each)
    wrong = [text for side, protocol in protocols.items() if protocol != "amqp10" for text in _unclear(side, given)]
    members = [
        *_source(protocols["src"], release, may_enter),
        *_destination(protocols["dest"], release, may_enter),
        Member("src-protocol", _anything),
        Member("dest-protocol", _anything),
        Member("ack-mode", lambda given: _wrong_ack_mode(given)),
        Member("reconnect-delay", lambda given: wrong_number("reconnect-delay", given, is_number)),
    ]
    _refuse([*wrong, *wrong_members(value, members, name)])


def _refuse(wrong: list[str]) -> None:
    if wrong:
        raise _refusal(wrong)


def _refusal(wrong: list[str]) -> OperatorError:
    return invalid_parameter("\n".join(wrong))


def _unclear(side: str, given: Mapping[str, Any]) -> list[str]:
    """Return what is wrong where a queue and an exchange are named, or a source has neither, or no end is seen."""
    queue, exchange = f"{side}-queue", f"{side}-exchange"
    wrong = []
    if queue in given and exchange in given:
        wrong.append(f"Cannot specify '{exchange}' and '{queue}'")
    elif side == "src" and queue not in given and exchange not in given:
        wrong.append(f"Must specify '{exchange}' or '{queue}'")
    ends = given.get("src-delete-after", given.get("delete-after"))
    if side == "src" and given.get("ack-mode") == "no-ack" and is_integer(ends):
        wrong.append("Cannot specify 'no-ack' and numerical 'delete-after'")
    return wrong


def _source(protocol: str, release: Release, may_enter: MayEnter) -> list[Member]:
    uri = Member("src-uri", lambda given: _wrong_uri("src-uri", given, may_enter), mandatory=True)
    if protocol == "amqp10":
        return [uri, *(Member(name, _anything, name == "src-address") for name in _AMQP10_SOURCE)]
    return [
        uri,
        *(_text(name) for name in ("src-exchange", "src-exchange-key", "src-queue")),
        *(_arguments(name, release) for name in _known(release, "src-queue-args", "src-consumer-args")),
        *(_number(name) for name in ("prefetch-count", "src-prefetch-count")),
        *(_ends(name, release) for name in ("delete-after", "src-delete-after")),
        *(_flag(name) for name in _known(release, "src-predeclared")),
    ]


def _destination(protocol: str, release: Release, may_enter: MayEnter) -> list[Member]:
    uri = Member("dest-uri", lambda given: _wrong_uri("dest-uri", given, may_enter), mandatory=True)
    if protocol == "amqp10":
        return [uri, *(Member(name, _anything, name == "dest-address") for name in _AMQP10_DESTINATION)]
    return [
        uri,
        *(_text(name) for name in ("dest-exchange", "dest-exchange-key", "dest-queue")),
        *(_arguments(name, release) for name in _known(release, "dest-queue-args")),
        *(_flag(name) for name in ("add-forward-headers", "add-timestamp-header")),
        *(_flag(name) for name in ("dest-add-forward-headers", "dest-add-timestamp-header")),
        *(_flag(name) for name in _known(release, "dest-predeclared")),
        *(_properties(name) for name in ("publish-properties", "dest-publish-properties")),
    ]


def _known(release: Release, *names: str) -> list[str]:
    return [name for name in names if name in release.shovel_keys]


def _anything(_given: Any) -> None:
    return None


def _arguments(name: str, release: Release) -> Member:
    """Return the check of arguments: an empty list stands for none, as some languages write an empty object."""

    by_name = release.shovel_arguments_checked == "names"
    of_queues = name != "src-consumer-args"
    known = [Member(each, _anything) for each in sorted(_arguments_known(release, of_queues=of_queues))]

    def wrong(given: Any) -> str | None:
        key = "x-dead-letter-routing-key"
        if not isinstance(given, Mapping | list) or (isinstance(given, list) and given and not by_name):
            raise unforeseen_case(given)
        if by_name and of_queues and key in given:
            raise unforeseen_case(key)
        if by_name:
            return "\n".join(wrong_members(given, known, name)) or None
        if isinstance(given, Mapping) and release.shovel_arguments_checked == "values":
            checks = DECLARED if of_queues else CONSUMED
            return "\n".join(wrong_values(checks, given, name, release)) or None
        return None

    return Member(name, wrong)


def _arguments_known(release: Release, *, of_queues: bool) -> frozenset[str]:
    if of_queues:
        return frozenset().union(*(queue_arguments(kind, release) for kind in release.queue_types))
    by_type = (release.classic_consumer_arguments, release.quorum_consumer_arguments, release.stream_consumer_arguments)
    return frozenset().union(*by_type) - {"x-credit"}


def _text(name: str) -> Member:
    return Member(name, lambda given: None if isinstance(given, str) else _actually(f"{name} should be binary", given))


def _number(name: str) -> Member:
    return Member(name, lambda given: wrong_number(name, given, is_number))


def _flag(name: str) -> Member:
    return Member(
        name, lambda given: None if isinstance(given, bool) else _actually(f"{name} should be boolean", given)
    )


def _properties(name: str) -> Member:
    members = [*map(_text, _TEXT_PROPERTIES), *map(_number, _NUMBER_PROPERTIES)]
    return Member(name, lambda given: "\n".join(wrong_members(given, members, name)) or None)


def _ends(name: str, release: Release) -> Member:
    def wrong(given: Any) -> str | None:
        if given in ("never", QUEUE_LENGTH):
            return None
        if is_integer(given) and given <= 0 and release.shovel_delete_after == "crashes unless positive":
            raise unforeseen_case(given)
        if is_integer(given) and given >= 0:
            return None
        positive = release.shovel_delete_after == "0 and more"
        kind = "a number greater than or equal to 0" if positive else "number"
        return _actually(f'{name} should be {kind}, "never" or "{QUEUE_LENGTH}"', given)

    return Member(name, wrong)


def _wrong_ack_mode(given: Any) -> str | None:
    if not isinstance(given, str):
        return _actually("ack-mode should be binary", given)
    return _wrong_choice("ack-mode", given, list(_ACK_MODES))


def _wrong_choice(name: str, given: Any, known: list[str]) -> str | None:
    if given in known:
        return None
    start = f"{name} should be one of "
    return _actually(start + printed(json_term(known), len(start)), given)


def _actually(text: str, given: Any) -> str:
    return said(f"{text}, actually was {{}}", given)


def _wrong_uri(name: str, given: Any, may_enter: MayEnter) -> str | None:
    if not isinstance(given, str | list):
        return _actually(f"{name} should be list", given)
    wrong = (_wrong_address(name, each, may_enter) for each in ([given] if isinstance(given, str) else given))
    return next((text for text in wrong if text), None)


def _wrong_address(name: str, given: Any, may_enter: MayEnter) -> str | None:
    if not isinstance(given, str):
        return _actually(f"{name} should be binary", given)
    text = printed(list(map(ord, given)))
    try:
        scheme = urlsplit(given).scheme
    except ValueError:
        scheme = ""
    if not scheme:
        return f'"{given}" not a valid URI: {{{{unable_to_parse_uri,no_scheme}},{text}}}'
    if scheme not in ("amqp", "amqps"):
        return f'"{given}" not a valid URI: {{{{unexpected_uri_scheme,"{scheme}"}},{text}}}'
    wrong = _wrong_place(given)
    if wrong is not None:
        start = f'"{given}" not a valid URI: '
        return start + printed((wrong, list(map(ord, given))), len(start))
    address = _uri(given)
    refused = None if address.host else may_enter(address.vhost)
    return None if refused is None else f'user "{refused}" may not connect to vhost "{address.vhost}"'


def _wrong_place(given: str) -> tuple[Any, ...] | None:
    """Return the term for a port or a virtual host that an address cannot have. A server's has the stack in it, too."""
    parts = urlsplit(given)
    port = _PORT.fullmatch(parts.netloc.rpartition("@")[2])
    if port is not None and not _INTEGER.fullmatch(port[1]):
        return Atom("unable_to_parse_uri"), (Atom("malformed_uri"), list(map(ord, given)))
    if port is not None and not 0 < int(port[1]) <= 0xFFFF:
        return Atom("port_out_of_range"), int(port[1])
    if "/" in parts.path[1:]:
        return Atom("invalid_vhost"), list(map(ord, parts.path[1:]))
    return None
