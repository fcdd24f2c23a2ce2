"""A scenario: how a broker is configured and what an application does, read from plain JSON values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

from simulator.scenario.scenario_errors import ScenarioError, convert_part
from simulator.systems.activemq import plugins
from simulator.systems.activemq.activemq_xml import ConfigurationError, broker_settings
from simulator.systems.activemq.dead_letter_strategies import Strategy
from simulator.systems.activemq.destinations import (
    Destination,
    DestinationEntry,
    DestinationMap,
    entries,
    parse_destination,
    split_options,
)
from simulator.systems.activemq.profiles import PROFILES
from simulator.systems.activemq.redelivery_policy import RedeliveryPolicy
from simulator.systems.activemq.selectors import Selector, SelectorError, parse_selector
from simulator.systems.activemq.settings import (
    BROWSE_PAGE_SIZE,
    EXPIRE_PERIOD_MS,
    PAGE_SIZE,
    BrokerSettings,
    DestinationPolicy,
)

_OF_CONSUMER = "consumer."
_PREFETCH, _EXCLUSIVE, _PRIORITY = "consumer.prefetchSize", "consumer.exclusive", "consumer.priority"
PRIORITY_MAX = 127
"""Of a consumer; the priority is one byte."""
Milliseconds = Annotated[int, msgspec.Meta(ge=0)]
Fails = Annotated[int, msgspec.Meta(ge=0)] | Literal["always"]
Property = str | int | float | bool
# The fields that a connection sets; the others are the broker's, if it sends a policy.
PartOfPolicy = Annotated[dict[str, Any], msgspec.Meta(extra_json_schema={"$ref": "#/$defs/RedeliveryPolicy"})]


class _Strict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A part of a scenario; fields that are not its own are errors."""


class PolicyEntry(_Strict, frozen=True, kw_only=True, rename="camel"):
    """The settings for a queue or topic, as in ``policyEntry``."""

    queue: str | None = None
    topic: str | None = None
    dead_letter_strategy: Strategy | None = None
    expire_messages_period: int = EXPIRE_PERIOD_MS
    max_page_size: int = PAGE_SIZE
    max_expire_page_size: int = BROWSE_PAGE_SIZE
    max_browse_page_size: int = BROWSE_PAGE_SIZE


class RedeliveryPlugin(_Strict, frozen=True, kw_only=True, rename="camel"):
    """The broker's redelivery plugin."""

    policies: tuple[RedeliveryPolicy, ...] = ()
    default_policy: RedeliveryPolicy | None = msgspec.field(default=None, name="default_policy")
    fallback_to_dead_letter: bool = True
    send_to_dlq_if_max_retries_exceeded: bool = True


class DiscardingPlugin(_Strict, frozen=True, kw_only=True, rename="camel"):
    """The broker's discarding plugin."""

    drop_all: bool = True
    drop_temporary_topics: bool = True
    drop_temporary_queues: bool = True
    drop_only: str = ""


class BrokerPart(_Strict, frozen=True, kw_only=True):
    """The broker: from ``activemq.xml``, or from here."""

    activemq_xml: str | None = None
    policies: tuple[PolicyEntry, ...] = ()
    default_policy: PolicyEntry | None = None
    redelivery_plugin: RedeliveryPlugin | None = None
    discarding_plugin: DiscardingPlugin | None = None
    redelivery_policy: RedeliveryPolicy | None = None
    persistent: bool = True
    scheduler_support: bool = False


class _Step(_Strict, frozen=True, kw_only=True, tag_field="do"):
    """Something that is done, not before ``at_ms``."""

    at_ms: Milliseconds | None = None


class Connect(_Step, frozen=True, kw_only=True, tag="connect"):
    """Open a connection, with the redelivery policy of its consumers.

    ``redelivery_policies`` are by destination; ``put_policies`` are put under one without naming it.
    ``prefetch``: how many messages a consumer is given ahead; of 0 it asks for each.
    """

    connection: str
    client_id: str | None = None
    redelivery_policy: PartOfPolicy | None = None
    redelivery_policies: tuple[RedeliveryPolicy, ...] = ()
    put_policies: dict[str, RedeliveryPolicy] = {}
    non_blocking_redelivery: bool = False
    prefetch: Annotated[int, msgspec.Meta(ge=0)] = 1000


class OpenSession(_Step, frozen=True, kw_only=True, tag="session"):
    """Open a session."""

    session: str
    connection: str
    acknowledge: Literal["transacted", "auto", "client", "dups_ok", "individual"] = "auto"


class ListenerPart(_Strict, frozen=True, kw_only=True):
    """A listener that throws ``exception`` the first ``fails`` times that it sees a message.

    ``{n}`` in the exception is the number of the call.
    """

    fails: Fails = 0
    exception: str = "java.lang.RuntimeException: failed"


class Consume(_Step, frozen=True, kw_only=True, tag="consumer"):
    """Create a consumer; with ``subscription``, one of a durable subscription.

    Options behind the destination are ``consumer.prefetchSize``, which goes before the connection's ``prefetch``,
    ``consumer.exclusive`` and ``consumer.priority``.
    """

    consumer: str
    session: str
    destination: str
    subscription: str | None = None
    selector: str | None = None
    listener: ListenerPart | None = None


class Send(_Step, frozen=True, kw_only=True, tag="send"):
    """Send a message; with ``session``, in its transaction. ``delay_ms``: the broker's scheduler sends it so late."""

    to: str
    session: str | None = None
    delay_ms: Milliseconds | None = None
    body: str = ""
    message: str | None = None
    persistent: bool = True
    ttl_ms: Milliseconds = 0
    priority: Annotated[int, msgspec.Meta(ge=0, le=9)] = 4
    properties: dict[str, Property] = {}


class Receive(_Step, frozen=True, kw_only=True, tag="receive"):
    """Wait for a message, for ``timeout_ms`` at most."""

    consumer: str
    timeout_ms: Milliseconds = 0


class Process(_Step, frozen=True, kw_only=True, tag="process"):
    """Receive until nothing has come for ``idle_ms``; a message fails its first ``fails`` times.

    A session rolls back (``transacted``) or recovers (``client``) the failures, and commits or acknowledges the rest.
    """

    consumer: str
    fails: Fails = "always"
    idle_ms: Milliseconds = 60_000
    attempts: Annotated[int, msgspec.Meta(ge=1)] = 1000


class Commit(_Step, frozen=True, kw_only=True, tag="commit"):
    """Commit the session."""

    session: str


class Rollback(_Step, frozen=True, kw_only=True, tag="rollback"):
    """Roll the session back."""

    session: str


class Recover(_Step, frozen=True, kw_only=True, tag="recover"):
    """Recover the session, which is not transacted."""

    session: str


class Acknowledge(_Step, frozen=True, kw_only=True, tag="acknowledge"):
    """Acknowledge the last message that a consumer received; with ``client``, all of the session's."""

    consumer: str


class Nack(_Step, frozen=True, kw_only=True, tag="nack"):
    """Let the last message that a consumer received die at once, as a client of STOMP does."""

    consumer: str


class Close(_Step, frozen=True, kw_only=True, tag="close"):
    """Close a consumer, a session or a connection."""

    consumer: str | None = None
    session: str | None = None
    connection: str | None = None


class Disconnect(_Step, frozen=True, kw_only=True, tag="disconnect"):
    """Break the socket of a connection."""

    connection: str


class Restart(_Step, frozen=True, kw_only=True, tag="restart"):
    """Stop the broker and start it again: all connections break, and what it had in memory is gone."""


class Unsubscribe(_Step, frozen=True, kw_only=True, tag="unsubscribe"):
    """End a durable subscription."""

    client_id: str
    subscription: str


class Browse(_Step, frozen=True, kw_only=True, tag="browse"):
    """Look at a queue and count its messages."""

    queue: str


class Drain(_Step, frozen=True, kw_only=True, tag="drain"):
    """Take all messages out of a queue, and show them."""

    queue: str


class Retry(_Step, frozen=True, kw_only=True, tag="retry"):
    """Send the dead letters of a queue back to where they came from, as the management does."""

    queue: str


class Wait(_Step, frozen=True, kw_only=True, tag="wait"):
    """Let time pass."""

    ms: Milliseconds


Step = (
    Connect | OpenSession | Consume | Send | Receive | Process | Commit | Rollback | Recover | Acknowledge | Nack
    | Close | Disconnect | Restart | Unsubscribe | Browse | Drain | Retry | Wait
)  # fmt: skip


class Scenario(_Strict, frozen=True, kw_only=True):
    """A whole scenario."""

    system: Literal["activemq"] = "activemq"
    title: str = ""
    profile: Annotated[str, msgspec.Meta(extra_json_schema={"enum": list(PROFILES)})] = "5.17.2"
    seed: int = 0
    start_ms: Milliseconds = 0
    broker: BrokerPart = BrokerPart()
    steps: tuple[Step, ...] = ()


def read(document: Mapping[str, Any]) -> Scenario:
    """Read a scenario. Raises ``ScenarioError`` with the place and what would be right there."""
    scenario = convert_part(document, Scenario)
    if scenario.profile not in PROFILES:
        raise ScenarioError("profile", f"expected one of {', '.join(PROFILES)}, got '{scenario.profile}'")
    if scenario.broker.redelivery_policy is not None and not PROFILES[scenario.profile].broker_sends_policy:
        raise ScenarioError(
            "broker.redelivery_policy",
            f"no broker of the profile {scenario.profile} sends a policy to its clients; put it into a connect step",
        )
    return scenario


def settings(part: BrokerPart) -> BrokerSettings:
    """Return the configuration of the broker, from the scenario or from the ``activemq.xml`` in it."""
    here = BrokerSettings(
        policies=DestinationMap(_policy_entries(part.policies), _default(part.default_policy)),
        plugins=_plugins(part),
        redelivery_policy=part.redelivery_policy,
        persistent=part.persistent,
        scheduler=part.scheduler_support or part.redelivery_plugin is not None,
    )
    if part.activemq_xml is None:
        return here
    if here.policies != DestinationMap() or here.plugins:
        raise ScenarioError("broker", "expected either activemq_xml or policies and plugins, got both")
    try:
        found = broker_settings(part.activemq_xml)
    except ConfigurationError as error:
        raise ScenarioError("broker.activemq_xml", str(error)) from error
    return msgspec.structs.replace(found, redelivery_policy=part.redelivery_policy)


def client_policies(step: Connect, where: str, sent: RedeliveryPolicy | None) -> DestinationMap[RedeliveryPolicy]:
    """Return the redelivery policies of a connection.

    ``sent`` is the policy that the broker sent it; the step's own fields override that in part.
    """
    sent_fields = {} if sent is None else msgspec.to_builtins(sent)
    default = convert_part(
        {**sent_fields, **(step.redelivery_policy or {})}, RedeliveryPolicy, f"{where}.redelivery_policy"
    )
    named = [
        entry
        for index, policy in enumerate(step.redelivery_policies)
        for entry in entries(_named(policy, f"{where}.redelivery_policies[{index}]"), policy)
    ]
    put = [
        entry
        for key, policy in step.put_policies.items()
        for entry in entries(destination(key, f"{where}.put_policies"), policy, named=False)
    ]
    return DestinationMap((*named, *put), default)


def destination(text: str, where: str) -> Destination:
    """Read a destination of a scenario. Raises ``ScenarioError``."""
    try:
        return parse_destination(text)
    except ValueError as error:
        raise ScenarioError(where, str(error)) from error


class ConsumerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a consumer's destination says in its options.

    Attributes:
        prefetch: how many unread messages it is given; ``None`` where its connection says so.
        exclusive: whether it is to be the only one that gets messages of the queue.
        priority: those of a higher one get messages first.
    """

    prefetch: int | None = None
    exclusive: bool = False
    priority: int = 0


def consumer_options(text: str, where: str) -> ConsumerOptions:
    """Read the options behind a consumer's destination. Raises ``ScenarioError``, also for other options."""
    options = {name: value for name, value in split_options(text)[1].items() if name.startswith(_OF_CONSUMER)}
    prefetch, exclusive = options.pop(_PREFETCH, None), options.pop(_EXCLUSIVE, "false")
    priority = options.pop(_PRIORITY, "0")
    if options:
        simulated = f"only {_PREFETCH}, {_EXCLUSIVE} and {_PRIORITY} are"
        raise ScenarioError(where, f"the option {next(iter(options))} is not simulated; {simulated}")
    if prefetch is not None and not prefetch.isdecimal():
        raise ScenarioError(where, f"expected a whole number from 0 as {_PREFETCH}, got '{prefetch}'")
    if exclusive not in ("true", "false"):
        raise ScenarioError(where, f"expected true or false as {_EXCLUSIVE}, got '{exclusive}'")
    if not priority.removeprefix("-").isdecimal() or not -PRIORITY_MAX - 1 <= int(priority) <= PRIORITY_MAX:
        limits = f"from {-PRIORITY_MAX - 1} to {PRIORITY_MAX}"
        raise ScenarioError(where, f"expected a whole number {limits} as {_PRIORITY}, got '{priority}'")
    return ConsumerOptions(
        prefetch=None if prefetch is None else int(prefetch), exclusive=exclusive == "true", priority=int(priority)
    )


def selector(text: str | None, where: str) -> Selector | None:
    """Read a selector of a scenario. Raises ``ScenarioError``."""
    try:
        return parse_selector(text)
    except SelectorError as error:
        raise ScenarioError(where, str(error)) from error


def _policy_entries(part: tuple[PolicyEntry, ...]) -> tuple[DestinationEntry[DestinationPolicy], ...]:
    found: list[DestinationEntry[DestinationPolicy]] = []
    for index, each in enumerate(part):
        found += entries(_named(each, f"broker.policies[{index}]"), _policy(each))
    return tuple(found)


def _named(part: PolicyEntry | RedeliveryPolicy, where: str) -> Destination:
    """Return the one destination that an entry is for."""
    if part.queue is not None and part.topic is None:
        return destination(f"queue://{part.queue}", f"{where}.queue")
    if part.topic is not None and part.queue is None:
        return destination(f"topic://{part.topic}", f"{where}.topic")
    raise ScenarioError(where, 'expected either "queue" or "topic", which the entry is for')


def _policy(part: PolicyEntry) -> DestinationPolicy:
    return DestinationPolicy(
        strategy=part.dead_letter_strategy,
        expire_period_ms=part.expire_messages_period,
        max_page_size=part.max_page_size,
        max_expire_page_size=part.max_expire_page_size,
        max_browse_page_size=part.max_browse_page_size,
    )


def _default(part: PolicyEntry | None) -> DestinationPolicy | None:
    return None if part is None else _policy(part)


def _plugins(part: BrokerPart) -> tuple[plugins.Plugin, ...]:
    found: list[plugins.Plugin] = []
    redelivery, discarding = part.redelivery_plugin, part.discarding_plugin
    if redelivery is not None:
        where = "broker.redelivery_plugin"
        named = [
            entry
            for index, policy in enumerate(redelivery.policies)
            for entry in entries(_named(policy, f"{where}.policies[{index}]"), policy)
        ]
        try:
            found.append(
                plugins.Redelivery(
                    policies=DestinationMap(tuple(named), redelivery.default_policy),
                    fallback=redelivery.fallback_to_dead_letter,
                    dead_letter_when_exceeded=redelivery.send_to_dlq_if_max_retries_exceeded,
                )
            )
        except ValueError as error:
            raise ScenarioError(where, str(error)) from error
    if discarding is not None:
        try:
            found.append(plugins.Discarding(**msgspec.structs.asdict(discarding)))
        except ValueError as error:
            raise ScenarioError("broker.discarding_plugin", str(error)) from error
    return tuple(found)
