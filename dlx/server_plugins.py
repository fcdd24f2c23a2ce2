"""The plugins of a RabbitMQ server that the simulator knows, and the exchange types that they bring.

A node has the exchange types of its release (``Release.exchange_types``) and those of the plugins that are enabled.

Source: rabbitmq-plugins list; live servers of 3.8, 3.10, 4.0 and 4.3. The delayed message exchange is not bundled
with RabbitMQ, and no released version of it starts on 4.3.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from dlx.nearest_names import suggestion


class ServerPlugin(NamedTuple):
    """A plugin of RabbitMQ.

    Attributes:
        name: as RabbitMQ names it in its file ``enabled_plugins``.
        exchange_types: those that exist while it is enabled.
        policy_keys: what policies may define while it is enabled.
    """

    name: str
    exchange_types: frozenset[str] = frozenset()
    policy_keys: frozenset[str] = frozenset()


class UnknownPluginError(ValueError):
    """A plugin that the simulator does not know; the message names the nearest one."""


DELAYED = "x-delayed-message"
CONSISTENT_HASH = "x-consistent-hash"
RANDOM = "x-random"
LOCAL_RANDOM = "x-local-random"
RECENT_HISTORY = "x-recent-history"
MODULUS_HASH = "x-modulus-hash"
JMS_TOPIC = "x-jms-topic"
FEDERATION_UPSTREAM = "x-federation-upstream"

EVENT_EXCHANGE = "amq.rabbitmq.event"
"""The exchange to which the plugin for events publishes them."""

AT_RANDOM = frozenset({RANDOM, LOCAL_RANDOM})
CHOOSING = AT_RANDOM | {CONSISTENT_HASH, MODULUS_HASH}
"""Types of exchanges that choose one of their destinations for a message."""

PLAYED = frozenset({DELAYED, CONSISTENT_HASH, RANDOM, RECENT_HISTORY, MODULUS_HASH})
"""Types of exchanges of plugins that questions about definitions look into."""

PLUGINS: Mapping[str, ServerPlugin] = {
    "delayed": ServerPlugin("rabbitmq_delayed_message_exchange", frozenset({DELAYED})),
    "consistent-hash": ServerPlugin("rabbitmq_consistent_hash_exchange", frozenset({CONSISTENT_HASH})),
    "random": ServerPlugin("rabbitmq_random_exchange", frozenset({RANDOM})),
    "recent-history": ServerPlugin("rabbitmq_recent_history_exchange", frozenset({RECENT_HISTORY})),
    "sharding": ServerPlugin(
        "rabbitmq_sharding", frozenset({MODULUS_HASH}), frozenset({"shards-per-node", "routing-key"})
    ),
    "jms-topic": ServerPlugin("rabbitmq_jms_topic_exchange", frozenset({JMS_TOPIC})),
    "event": ServerPlugin("rabbitmq_event_exchange", frozenset()),
    "federation": ServerPlugin("rabbitmq_federation", frozenset({FEDERATION_UPSTREAM})),
    "shovel": ServerPlugin("rabbitmq_shovel"),
}
"""The plugins by the short names that ``dlx serve --plugins`` takes."""

_FILE = re.compile(r"(?:\s|%.*\n)*\[([\w\s,]*)\]\s*\.\s*")
_BY_NAME = {plugin.name: plugin for plugin in PLUGINS.values()}


def named_plugins(names: Iterable[str]) -> frozenset[str]:
    """Return RabbitMQ's names of plugins, each given by its short name or by RabbitMQ's.

    Raises ``UnknownPluginError``.
    """
    if isinstance(names, str):
        raise UnknownPluginError(f"expected a list of plugins, such as [{names!r}], found the text {names!r}")
    return frozenset(_named(name) for name in names)


def _named(name: str) -> str:
    if name in _BY_NAME:
        return name
    if name not in PLUGINS:
        raise UnknownPluginError(f"no plugin {name!r}: {suggestion(name, [*PLUGINS, *_BY_NAME])}")
    return PLUGINS[name].name


def enabled_plugins(text: str) -> frozenset[str]:
    """Return the plugins in a server's file ``enabled_plugins`` that the simulator knows; others route nothing.

    Raises ``ValueError`` for text that is not such a file.
    """
    found = _FILE.fullmatch(text)
    if found is None:
        raise ValueError("expected a list of plugins such as [rabbitmq_management,rabbitmq_shovel].")
    return frozenset(re.findall(r"\w+", found[1])) & _BY_NAME.keys()


def types_of(plugins: Iterable[str]) -> frozenset[str]:
    """Return the exchange types that plugins, by RabbitMQ's names, bring. Other plugins bring none."""
    return frozenset().union(*(_BY_NAME[name].exchange_types for name in plugins if name in _BY_NAME))


def policy_keys_of(plugins: Iterable[str]) -> frozenset[str]:
    """Return what plugins, by RabbitMQ's names, let policies define."""
    return frozenset().union(*(_BY_NAME[name].policy_keys for name in plugins if name in _BY_NAME))


def plugins_with(types: Iterable[str]) -> frozenset[str]:
    """Return RabbitMQ's names of the plugins without which these exchange types do not exist."""
    wanted = frozenset(types)
    return frozenset(plugin.name for plugin in PLUGINS.values() if plugin.exchange_types & wanted)
