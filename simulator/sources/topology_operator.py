"""Objects of RabbitMQ's messaging topology operator for Kubernetes, as the operator declares them on a server.

Source: the custom resource definitions, webhooks and `internal/` of rabbitmq/messaging-topology-operator 1.20, and what
rabbit-hole 3.5 makes of it for the management API.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from dlx.nearest_names import nearest
from simulator.definitions import DefinitionsError
from simulator.sources.document import Defined, Document, Found, Reader, Remark
from simulator.sources.fields import checked, expected_of
from simulator.sources.operator_fields import REQUIRED, SPECS, TOP, server_name

_GROUP = "rabbitmq.com/"
_VERSIONS = {"SuperStream": "v1alpha1"}
_LEFT_OUT = {
    "SchemaReplication": "it copies definitions from another cluster, which is not here",
    "RabbitmqCluster": "the configuration of a cluster is not read",
}
_DURABLE = (
    "{place}: {count} without `durable`, such as {name!r}: taken to be durable, as the operator has it from 1.20 on; "
    "before, they are not"
)


class _Object:
    """An object of the operator, checked against its kind."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.kind = str(document.value.get("kind"))
        self.place = document.place()
        value = checked(document, (), document.value, dict.fromkeys(TOP, object))
        version = _VERSIONS.get(self.kind, "v1beta1")
        if value["apiVersion"] != _GROUP + version:
            problem = f"expected {_GROUP}{version} for a {self.kind}, got {value['apiVersion']!r}"
            raise document.error(("apiVersion",), problem)
        if "spec" not in value:
            raise document.error(("spec",), "missing; expected an object")
        metadata = value.get("metadata")
        self._metadata = metadata if isinstance(metadata, dict) else {}
        self.spec: dict[str, Any] = checked(document, ("spec",), value["spec"], SPECS[self.kind])
        for field in (*REQUIRED.get(self.kind, ("name",)), "rabbitmqClusterReference"):
            if field not in self.spec:
                raise self.error(field, f"missing; expected {expected_of(SPECS[self.kind][field])}")

    @property
    def name(self) -> str:
        """Its name in Kubernetes."""
        if not isinstance(self._metadata.get("name"), str):
            raise self.document.error(("metadata", "name"), "missing; expected a string")
        return str(self._metadata["name"])

    @property
    def namespace(self) -> str:
        return str(self._metadata.get("namespace") or "")

    @property
    def vhost(self) -> str:
        return str(self.spec.get("vhost", "/"))

    @property
    def cluster(self) -> tuple[str, str]:
        """The namespace, if it is given, and the name of the cluster, or of the secret that has its address."""
        reference = self.spec["rabbitmqClusterReference"]
        secret = reference.get("connectionSecret", {}).get("name")
        if bool(reference.get("name")) == bool(secret):
            raise self.error("rabbitmqClusterReference", "expected either name or connectionSecret")
        return reference.get("namespace") or self.namespace, reference.get("name") or f"secret {secret}"

    def error(self, field: str, problem: str) -> DefinitionsError:
        return self.document.error(("spec", field), problem)

    def defines(self, section: str, **item: Any) -> Defined:
        return Defined(section, item, self.place, (self.namespace, str(self._metadata.get("name"))))


def _queue(given: _Object) -> Iterator[Found]:
    spec = given.spec
    kind = {"x-queue-type": spec["type"]} if spec.get("type") else {}
    yield given.defines(
        "queues",
        name=spec["name"],
        vhost=given.vhost,
        durable=spec.get("durable", True),
        auto_delete=spec.get("autoDelete", False),
        arguments={**spec.get("arguments", {}), **kind},
    )


def _exchange(given: _Object) -> Iterator[Found]:
    spec = given.spec
    yield given.defines(
        "exchanges",
        name=spec["name"],
        vhost=given.vhost,
        type=spec.get("type", "direct"),
        durable=spec.get("durable", False),
        auto_delete=spec.get("autoDelete", False),
        internal=False,
        arguments=spec.get("arguments", {}),
    )


def _binding(given: _Object) -> Iterator[Found]:
    spec = given.spec
    if "destinationType" not in spec:
        yield Remark(f"{given.place}: a Binding without destinationType: the operator binds an exchange")
    yield given.defines(
        "bindings",
        source=spec.get("source", ""),
        vhost=given.vhost,
        destination=spec.get("destination", ""),
        destination_type=spec.get("destinationType", "exchange"),
        routing_key=spec.get("routingKey", ""),
        arguments=spec.get("arguments", {}),
    )


def _rule(given: _Object, apply_to: str) -> dict[str, Any]:
    spec = given.spec
    return {
        "pattern": spec["pattern"],
        "apply-to": spec.get("applyTo", apply_to),
        "definition": spec["definition"],
        "priority": spec.get("priority", 0),
    }


def _policy(given: _Object) -> Iterator[Found]:
    yield given.defines("policies", vhost=given.vhost, name=given.spec["name"], **_rule(given, "all"))


def _parameter(given: _Object, component: str, value: Mapping[str, Any], name: str | None = None) -> Defined:
    named = given.spec["name"] if name is None else name
    vhost = given.spec["name"] if given.kind == "Vhost" else given.vhost
    return given.defines("parameters", vhost=vhost, component=component, name=named, value=dict(value))


def _operator_policy(given: _Object) -> Iterator[Found]:
    yield _parameter(given, "operator_policy", _rule(given, "queues"))


def _vhost(given: _Object) -> Iterator[Found]:
    spec = given.spec
    metadata = {"description": "", "tags": spec.get("tags", [])}
    if "defaultQueueType" in spec:
        metadata["default_queue_type"] = spec["defaultQueueType"]
    yield given.defines("vhosts", name=spec["name"], tracing=spec.get("tracing", False), metadata=metadata)
    if limits := _limits(given):
        yield _parameter(given, "vhost-limits", limits, "limits")


def _limits(given: _Object) -> dict[str, int]:
    return {f"max-{name}": limit for name, limit in given.spec.get("limits", {}).items()}


def _shovel(given: _Object) -> Iterator[Found]:
    yield _without_uri(given)
    uris = {"src-uri": _NO_URI, "dest-uri": _NO_URI}
    yield _parameter(given, "shovel", uris | _settings(given))


def _federation(given: _Object) -> Iterator[Found]:
    yield _without_uri(given)
    always = {"uri": _NO_URI, "reconnect-delay": 0, "trust-user-id": False}
    yield _parameter(given, "federation-upstream", always | _settings(given))


_NO_URI = ["amqp://"]
_NOT_SETTINGS = ("name", "vhost", "rabbitmqClusterReference", "uriSecret", "deletionPolicy")


def _without_uri(given: _Object) -> Remark:
    secret = given.spec["uriSecret"].get("name", "")
    what = f"{given.kind} {given.spec['name']!r}"
    return Remark(f"{given.place}: {what}: its URIs are in the secret {secret!r}, which is not read")


def _settings(given: _Object) -> dict[str, Any]:
    """Return what is set of a shovel or an upstream by the names that servers have: what is empty is not sent."""
    set_ = {name: each for name, each in given.spec.items() if name not in _NOT_SETTINGS and each}
    return {server_name(name): _number(name, each) for name, each in set_.items()}


def _number(name: str, value: Any) -> Any:
    return int(value) if name.endswith("eleteAfter") and value.isdecimal() else value


def _super_stream(given: _Object) -> Iterator[Found]:
    """Yield what the operator makes of a super stream: all of it has the name in the metadata."""
    spec, name, vhost = given.spec, given.name, given.vhost
    partitions = spec.get("partitions", 3)
    keys = spec.get("routingKeys") or [str(at) for at in range(partitions)]
    if len(keys) != partitions:
        raise given.error("routingKeys", f"expected as many as partitions, {partitions}, got {len(keys)}")
    if spec["name"] != name:
        yield Remark(f"{given.place}: the operator names a super stream by metadata.name, {name!r}, not by spec.name")
    common = {"vhost": vhost, "durable": True, "auto_delete": False}
    yield given.defines("exchanges", name=name, type="direct", internal=False, arguments={}, **common)
    for at, key in enumerate(keys):
        queue = f"{name}-{key}"
        yield given.defines("queues", name=queue, arguments={"x-queue-type": "stream"}, **common)
        yield given.defines(
            "bindings",
            source=name,
            vhost=vhost,
            destination=queue,
            destination_type="queue",
            routing_key=key,
            arguments={"x-stream-partition-order": at},
        )


_DECLARED: Mapping[str, Callable[[_Object], Iterator[Found]]] = {
    "Queue": _queue,
    "Exchange": _exchange,
    "Binding": _binding,
    "Policy": _policy,
    "OperatorPolicy": _operator_policy,
    "Vhost": _vhost,
    "Shovel": _shovel,
    "Federation": _federation,
    "SuperStream": _super_stream,
}


class _Users:
    """The names of the users that objects refer to, from the secrets that are among the documents."""

    def __init__(self, objects: Sequence[_Object], secrets: Sequence[Document]) -> None:
        self._given = secrets
        self._secrets = {each.value["metadata"]["name"]: _username(each) for each in secrets}
        self._users = {each.name: each for each in objects if each.kind == "User"}

    def named(self, user: _Object) -> str:
        secret = user.spec.get("importCredentialsSecret", {}).get("name")
        return self._secrets.get(str(secret)) or user.name

    def user(self, given: _Object) -> Iterator[Found]:
        name, secret = self.named(given), given.spec.get("importCredentialsSecret", {}).get("name")
        if not self._secrets.get(str(secret)):
            where = f"in the secret {secret!r}, which is not here" if secret else "made up by the operator"
            yield Remark(
                f"{given.place}: the name of a User is {where}: {name!r}, its name in Kubernetes, stands for it"
            )
        limits = {"limits": _limits(given)} if "limits" in given.spec else {}
        yield given.defines("users", name=name, password_hash="", tags=given.spec.get("tags", []), **limits)

    def unused(self) -> Iterator[Remark]:
        """Say which secrets no User has."""
        used = {each.spec.get("importCredentialsSecret", {}).get("name") for each in self._users.values()}
        for each in self._given:
            if each.value["metadata"]["name"] not in used:
                yield Remark(f"{each.place()}: a Secret left out: no User here has it")

    def permission(self, given: _Object) -> Iterator[Found]:
        permissions: Mapping[str, str] = given.spec["permissions"]
        rights = {right: permissions.get(right, "") for right in ("write", "read")}
        owner = {"user": self._of(given), "vhost": given.vhost}
        if given.kind == "Permission":
            yield given.defines("permissions", **owner, configure=permissions.get("configure", ""), **rights)
        elif "exchange" in permissions:
            yield given.defines("topic_permissions", **owner, exchange=permissions["exchange"], **rights)
        else:
            raise given.document.error(("spec", "permissions", "exchange"), "missing; expected a string")

    def _of(self, given: _Object) -> str:
        reference = given.spec.get("userReference")
        if bool(given.spec.get("user")) == (reference is not None):
            raise given.error("user", "expected either user or userReference")
        if reference is None:
            return str(given.spec["user"])
        name = reference.get("name", "")
        return self.named(self._users[name]) if name in self._users else name


def _username(secret: Document) -> str:
    written = secret.value.get("stringData") or {}
    if isinstance(written, dict) and isinstance(written.get("username"), str):
        return str(written["username"])
    try:
        return base64.b64decode(str(secret.value["data"]["username"]), validate=True).decode()
    except (binascii.Error, ValueError, KeyError, TypeError):
        return ""


def _is_secret(document: Document) -> bool:
    """Return whether a document may be the secret of a User."""
    value = document.value
    metadata = value.get("metadata")
    if value.get("kind") != "Secret" or not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
        return False
    return any(isinstance(value.get(field), dict) and "username" in value[field] for field in ("data", "stringData"))


def _recognises(document: Document) -> bool:
    value = document.value
    return isinstance(value, dict) and (str(value.get("apiVersion", "")).startswith(_GROUP) or _is_secret(document))


def _read(documents: Sequence[Document]) -> Iterator[Found]:
    secrets = [each for each in documents if _is_secret(each)]
    objects = []
    for document in documents:
        if document not in secrets:
            kind = str(document.value.get("kind"))
            if kind in SPECS:
                objects.append(_Object(document))
            else:
                yield _not_read(document, kind)
    _check_one_cluster(objects)
    users = _Users(objects, secrets)
    about_users = {"User": users.user, "Permission": users.permission, "TopicPermission": users.permission}
    declared = {**_DECLARED, **about_users}
    for each in objects:
        yield from declared[each.kind](each)
    yield from _durable(objects)
    yield from users.unused()


def _not_read(document: Document, kind: str) -> Remark:
    if kind not in _LEFT_OUT and (near := nearest(kind, SPECS)):
        raise document.error(("kind",), f"unknown kind {kind!r}; did you mean {near[0]!r}?")
    return Remark(f"{document.place()}: {kind} left out: {_LEFT_OUT.get(kind, 'nothing is known of its kind')}")


def _check_one_cluster(objects: Sequence[_Object]) -> None:
    """Refuse objects of several clusters: what is in one says nothing of the other."""
    first: dict[tuple[str, str], _Object] = {}
    for each in objects:
        namespace, name = each.cluster
        known = next((key for key in first if key[1] == name and (not namespace or namespace == key[0])), None)
        first.setdefault(known or (namespace, name), each)
    named = {key for key in first if key[0] or not any(other[1] == key[1] and other[0] for other in first)}
    if len(named) > 1:
        told = ", ".join(f"{'/'.join(filter(None, key))} ({first[key].place})" for key in sorted(named))
        last = max((first[key] for key in named), key=lambda each: each.place)
        raise last.error("rabbitmqClusterReference", f"objects of several clusters: {told}; expected those of one")


def _durable(objects: Sequence[_Object]) -> Iterator[Remark]:
    """Say which queues leave out what the operator's releases differ in."""
    without = [each for each in objects if each.kind == "Queue" and "durable" not in each.spec]
    if without:
        first = without[0]
        count = f"{len(without)} queue{'' if len(without) == 1 else 's'}"
        yield Remark(_DURABLE.format(place=first.place, count=count, name=first.spec["name"]))


TOPOLOGY_OPERATOR = Reader("objects of the topology operator", _recognises, _read)
