"""Dapr's pub/sub component for RabbitMQ, with Subscriptions: what a sidecar declares when an application starts.

Source: `pubsub/rabbitmq/` of dapr/components-contrib 1.16, which declares, and the resource schemas of Dapr. Names of
metadata are the same in capitals; a truth value is `y`, `yes`, `true`, `t`, `on` or `1`, and false if it is another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

import msgspec

from dlx.nearest_names import nearest, suggestion
from simulator.definitions import DefinitionsError, Place
from simulator.sources.document import Defined, Document, Found, Reader, Remark, shown_path
from simulator.sources.fields import HAS_PASSWORD, amqp_url, checked, is_password

_GROUP = "dapr.io/"
_TYPE = "pubsub.rabbitmq"
_MISSPELT = 0.85
"""How alike the type of a component is that means this one; `pubsub.rocketmq` is another."""
_REFERENCE = {"name": str, "key": str}
FIELDS: Mapping[str, Mapping[str, Any]] = {
    "Component": {
        "apiVersion": str,
        "kind": str,
        "metadata": dict,
        "auth": {"secretStore": str},
        "scopes": [str],
        "spec": {
            "type": str,
            "version": str,
            "ignoreErrors": bool,
            "initTimeout": str,
            "metadata": [{"name": str, "value": object, "secretKeyRef": _REFERENCE, "envRef": str}],
        },
    },
    "Subscription": {
        "apiVersion": str,
        "kind": str,
        "metadata": dict,
        "scopes": [str],
        "spec": {
            "pubsubname": str,
            "topic": str,
            "route": str,
            "routes": {"default": str, "rules": [{"match": str, "path": str}]},
            "deadLetterTopic": str,
            "bulkSubscribe": {"enabled": bool, "maxMessagesCount": int, "maxAwaitDurationMs": int},
            "metadata": dict,
        },
    },
}
COMPONENT_METADATA = {
    **dict.fromkeys(("durable", "enableDeadLetter", "deletedWhenUnused", "autoAck", "requeueInFailure"), bool),
    **dict.fromkeys(("maxLen", "maxLenBytes"), int),
    **dict.fromkeys(("consumerID", "connectionString", "host", "ttlInSeconds", "ttl"), str),
    "exchangeKind": ("fanout", "topic", "direct", "headers"),
    **dict.fromkeys(
        (
            "protocol",
            "hostname",
            "username",
            "password",
            "caCert",
            "clientCert",
            "clientKey",
            "saslExternal",
            "deliveryMode",
            "prefetchCount",
            "reconnectWaitSeconds",
            "reconnectWait",
            "clientName",
            "heartBeat",
            "publisherConfirm",
            "concurrency",
            "concurrencyMode",
            "publishMessagePropertiesToMetadata",
            "allowedTopics",
            "protectedTopics",
            "publishingScopes",
            "subscriptionScopes",
        ),
        object,
    ),
}
"""What the metadata of a component may hold; Dapr ignores what it does not know."""
SUBSCRIPTION_METADATA = {
    **dict.fromkeys(("queueName", "routingKey"), str),
    "queueType": ("classic", "quorum"),
    "singleActiveConsumer": bool,
    **dict.fromkeys(("maxPriority", "maxLen", "maxLenBytes"), int),
    **dict.fromkeys(("rawPayload", "isRawPayload"), object),
}
"""What the metadata of a Subscription may hold."""
_FORMER = "backoff"
"""What the names of metadata begin with by which Dapr retried until 2022."""
_TRUE = ("y", "yes", "true", "t", "on", "1")
_APP = "{appID}"
_CHANGING = ("{podName}", "{uuid}", "{namespace}", _APP)
"""Parts of a name that Dapr fills in when the application starts."""
_DURABLE = (
    "a component without `durable`: what it declares is taken to be durable, as Dapr's code has it; its documentation "
    "says that it is not"
)
_IN_CODE = "queues of applications that subscribe in code are not here: Dapr declares them when an application starts"


class _Resource:
    """A Component or a Subscription, checked."""

    def __init__(self, document: Document) -> None:
        self.document, self.place = document, document.place()
        self.kind = str(document.value["kind"])
        value = checked(document, (), document.value, FIELDS[self.kind])
        self.spec: dict[str, Any] = value.get("spec") or {}
        self.scopes: list[str] = value.get("scopes") or []
        self._metadata = value.get("metadata") or {}

    @property
    def name(self) -> str:
        return str(self._metadata.get("name", ""))

    @property
    def namespace(self) -> str:
        return str(self._metadata.get("namespace", ""))

    def error(self, path: Sequence[str | int], problem: str) -> DefinitionsError:
        return self.document.error(("spec", *path), problem)

    def required(self, field: str) -> str:
        if not self.spec.get(field):
            raise self.error((field,), "missing; expected a string")
        return str(self.spec[field])

    def setting(self, path: Sequence[str | int], value: Any, expected: Any) -> Any:
        """Return a value of metadata, which may be text: what Dapr takes it for."""
        if isinstance(value, dict | list):
            raise self.error(path, "expected a string, a number, true or false")
        text = msgspec.json.encode(value).decode() if isinstance(value, bool) else str(value)
        if expected is bool:
            return text.strip().lower() in _TRUE
        if expected is int:
            if not text.isdecimal():
                raise self.error(path, f"expected an integer, got {text!r}")
            return int(text)
        return checked(self.document, ("spec", *path), text, expected) if isinstance(expected, tuple) else text


class _Ignored:
    """The metadata that Dapr ignores because it does not know its names."""

    def __init__(self, document: Document, known: Iterable[str]) -> None:
        self._document, self._known = document, known
        self._unknown: dict[str, Place] = {}

    def add(self, name: str, path: Sequence[str | int]) -> None:
        self._unknown.setdefault(name, self._document.place(*path))

    def remarks(self) -> Iterator[Remark]:
        """Say it of each name, since it may be misspelt, and once of all that Dapr knew in former times."""
        former = [name for name in self._unknown if name.lower().startswith(_FORMER)]
        for name, place in self._unknown.items():
            if name not in former:
                near = nearest(name, self._known)
                meant = f"; did you mean {near[0]!r}?" if near else ""
                yield Remark(f"{place}: Dapr ignores {name!r}, a name that it does not know{meant}")
        if former:
            names = ", ".join(map(repr, former))
            yield Remark(f"{self._unknown[former[0]]}: Dapr ignores {names}: it has not retried by these since 2022")


class _Component(_Resource):
    """A pub/sub component."""

    def __init__(self, document: Document) -> None:
        super().__init__(document)
        if self.spec["type"] != _TYPE:
            raise self.error(("type",), f"no such component; {suggestion(self.spec['type'], [_TYPE])}")
        self.remarks: list[str] = []
        self.ignored = _Ignored(document, COMPONENT_METADATA)
        self.settings: dict[str, Any] = {}
        known = {name.lower(): name for name in COMPONENT_METADATA}
        of_subscription = {name.lower(): name for name in SUBSCRIPTION_METADATA}
        for at, each in enumerate(self.spec.get("metadata") or []):
            path = ("metadata", at)
            given = str(each.get("name", ""))
            name = known.get(given.lower())
            if name is None and given.lower() in of_subscription:
                told = f"Dapr ignores {given!r} here: it belongs in the metadata of a Subscription"
                self.remarks.append(f"{self._at(at)}: {told}")
            elif name is None:
                self.ignored.add(given, ("spec", *path))
            elif "value" in each:
                self.settings[name] = self.setting((*path, "value"), each["value"], COMPONENT_METADATA[name])
            elif COMPONENT_METADATA[name] is not object and name not in ("connectionString", "host"):
                self.remarks.append(f"{self._at(at)}: the value of {name!r} is not here: taken as not set")
        self.vhost = self._vhost()
        self.remarks += self._about()

    def _at(self, at: int) -> str:
        return str(self.document.place("spec", "metadata", at))

    def _vhost(self) -> str:
        """Return the virtual host, which the connection string may name."""
        named = [each.get("name") for each in self.spec.get("metadata") or []]
        url = self.settings.get("connectionString") or self.settings.get("host")
        if url and (parts := amqp_url(url)):
            if is_password(parts.password):
                self.remarks.append(f"{self.place}: {HAS_PASSWORD}")
            return unquote(parts.path)[1:] or "/"
        if url:
            self.remarks.append(f"{self.place}: the connection string is not an amqp URL: taken to be for '/'")
        elif {"connectionString", "host"} & {*named}:
            self.remarks.append(f"{self.place}: the connection string is not here: taken to be for virtual host '/'")
        return "/"

    def _about(self) -> Iterator[str]:
        """Say what the component does that no topology has."""
        if "durable" not in self.settings:
            yield f"{self.place}: {_DURABLE}"
        for name in ("ttlInSeconds", "ttl"):
            if self.settings.get(name):
                yield f"{self.place}: Dapr publishes with an expiration, {name} {self.settings[name]}: not here"
        if self.settings.get("autoAck"):
            yield f"{self.place}: with autoAck, nothing that an application fails on is dead-lettered"
        elif self.settings.get("requeueInFailure"):
            yield f"{self.place}: with requeueInFailure, what an application fails on goes back to its queue"

    @property
    def limits(self) -> dict[str, int]:
        limits = {"x-max-length": self.settings.get("maxLen"), "x-max-length-bytes": self.settings.get("maxLenBytes")}
        return {name: limit for name, limit in limits.items() if limit}

    def exchange(self, name: str, given: _Resource) -> Defined:
        kind, durable = self.settings.get("exchangeKind", "fanout"), self.settings.get("durable", True)
        return self._exchange(name, kind, durable, given)

    def dead_letter_exchange(self, name: str, given: _Resource) -> Defined:
        return self._exchange(name, "fanout", True, given)

    def _exchange(self, name: str, kind: str, durable: bool, given: _Resource) -> Defined:
        item = {"name": name, "vhost": self.vhost, "type": kind, "durable": durable, "auto_delete": self.auto_delete}
        return Defined("exchanges", {**item, "internal": False, "arguments": {}}, given.place)

    @property
    def auto_delete(self) -> bool:
        return bool(self.settings.get("deletedWhenUnused", True))

    def queue(self, name: str, durable: bool, arguments: Mapping[str, Any], given: _Resource) -> Defined:
        item = {"name": name, "vhost": self.vhost, "durable": durable, "auto_delete": self.auto_delete}
        return Defined("queues", {**item, "arguments": dict(arguments)}, given.place)

    def binding(self, exchange: str, queue: str, key: str, given: _Resource) -> Defined:
        ends = {"source": exchange, "destination": queue, "destination_type": "queue"}
        return Defined("bindings", {**ends, "vhost": self.vhost, "routing_key": key, "arguments": {}}, given.place)

    def consumers(self, subscription: _Resource) -> list[str]:
        """Return the consumer IDs, of which each has a queue: those of the applications that load both."""
        apps = subscription.scopes or self.scopes or [_APP]
        if subscription.scopes and self.scopes:
            apps = [each for each in subscription.scopes if each in self.scopes]
        given = str(self.settings.get("consumerID") or _APP).replace("{namespace}", self.namespace or "{namespace}")
        return list(dict.fromkeys(given.replace(_APP, app) for app in apps))


def _subscribed(component: _Component, subscription: _Resource, topics: set[tuple[str, str]]) -> Iterator[Found]:
    """Yield what a sidecar declares for a Subscription, in the order in which it does."""
    topic = subscription.required("topic")
    ignored = _Ignored(subscription.document, SUBSCRIPTION_METADATA)
    metadata = _metadata(subscription, ignored)
    yield from ignored.remarks()
    yield component.exchange(topic, subscription)
    consumers = component.consumers(subscription)
    names = [metadata["queueName"]] if metadata.get("queueName") else [f"{each}-{topic}" for each in consumers]
    if not consumers:
        yield Remark(
            f"{subscription.place}: no application is in the scopes of both this and {component.name!r}: no queue"
        )
        names = []
    for name in names:
        if changing := [part for part in _CHANGING if part in name]:
            told = ", ".join(changing)
            yield Remark(
                f"{subscription.place}: {told} in the name of queue {name!r} is known when an application starts"
            )
        arguments = {}
        if component.settings.get("enableDeadLetter"):
            exchange, queue = f"dlx-{name}", f"dlq-{name}"
            yield component.dead_letter_exchange(exchange, subscription)
            yield component.queue(queue, True, component.limits | {"x-queue-mode": "lazy"}, subscription)
            yield component.binding(exchange, queue, "", subscription)
            arguments["x-dead-letter-exchange"] = exchange
        arguments |= component.limits | _arguments(metadata)
        yield component.queue(name, component.settings.get("durable", True), arguments, subscription)
        for key in str(metadata.get("routingKey", "")).split(","):
            yield component.binding(topic, name, key, subscription)
    if dead := subscription.spec.get("deadLetterTopic"):
        yield component.exchange(dead, subscription)
        is_read = (component.name, dead) in topics
        nobody = "" if is_read else "; no Subscription here is for it, and without one they are lost"
        told = f"to topic {dead!r} Dapr itself publishes what fails, when its retries are over{nobody}"
        yield Remark(f"{subscription.place}: {told}")


def _metadata(subscription: _Resource, ignored: _Ignored) -> dict[str, Any]:
    found = {}
    for name, value in subscription.spec.get("metadata", {}).items():
        if name not in SUBSCRIPTION_METADATA:
            ignored.add(name, ("spec", "metadata", name))
        elif value not in (None, ""):
            found[name] = subscription.setting(("metadata", name), value, SUBSCRIPTION_METADATA[name])
    return found


def _arguments(metadata: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"x-queue-type": metadata.get("queueType", "classic")}
    if "maxPriority" in metadata:
        found["x-max-priority"] = min(metadata["maxPriority"], 255)
    if metadata.get("singleActiveConsumer"):
        found["x-single-active-consumer"] = True
    limits = {"maxLen": "x-max-length", "maxLenBytes": "x-max-length-bytes"}
    return found | {argument: metadata[name] for name, argument in limits.items() if name in metadata}


def _recognises(document: Document) -> bool:
    value = document.value
    if not isinstance(value, dict) or not str(value.get("apiVersion", "")).startswith(_GROUP):
        return False
    spec = value.get("spec")
    kind = str(spec.get("type")) if isinstance(spec, dict) else ""
    is_component = value.get("kind") == "Component" and bool(nearest(kind, [_TYPE], _MISSPELT))
    return is_component or value.get("kind") == "Subscription"


def _read(documents: Sequence[Document]) -> Iterator[Found]:
    components = [_Component(each) for each in documents if each.value["kind"] == "Component"]
    subscriptions = [_Resource(each) for each in documents if each.value["kind"] == "Subscription"]
    for component in components:
        yield from component.ignored.remarks()
    if not subscriptions:
        yield Remark(f"{components[0].place}: no Subscription here: nothing is declared")
    topics = {(str(each.spec.get("pubsubname")), str(each.spec.get("topic"))) for each in subscriptions}
    exchanges: list[dict[str, Any]] = []
    for subscription in subscriptions:
        name = subscription.required("pubsubname")
        named = [each for each in components if each.name == name]
        own = [each for each in named if each.namespace == subscription.namespace] or named
        if own:
            for each in _subscribed(own[0], subscription, topics):
                if not isinstance(each, Defined) or each.section != "exchanges":
                    yield each
                elif each.item not in exchanges:  # a topic may be another one's for dead letters, too
                    exchanges.append(each.item)
                    yield each
        else:
            where = shown_path(("spec", "pubsubname"))
            near = nearest(name, [each.name for each in components])
            meant = f"; did you mean {near[0]!r}?" if near else ""
            yield Remark(f"{subscription.place}: {where}: no component {name!r} for RabbitMQ is here: left out{meant}")
    for component in components if subscriptions else ():
        yield from map(Remark, component.remarks)
    yield Remark(_IN_CODE)


DAPR = Reader("Dapr's component for RabbitMQ with Subscriptions", _recognises, _read)
