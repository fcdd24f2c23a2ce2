"""Resources of Terraform's provider for RabbitMQ, as `terraform show -json` writes a plan or a state.

Source: the schemas and `Create` functions of cyrilgdn/terraform-provider-rabbitmq 1.10, what rabbit-hole 3.2 makes of
them for the management API, and Terraform's JSON output format 1.2.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from dlx.nearest_names import nearest
from simulator.definitions import DefinitionsError
from simulator.definitions.places import Path
from simulator.json_reading import read_json
from simulator.sources.document import Defined, Document, Empty, Found, Reader, Remark, shown_path
from simulator.sources.fields import checked

SHOW = "`terraform show -json PLAN` or `terraform show -json` writes what is read"
_NOT_JSON = re.compile(
    rb"""(?xs) \A
    (?: \s | (?: \# | // )[^\n]*\n | /\*.*?\*/ )*+ (?: PK\x03\x04 | [a-z_]+ (?: \s+"[^"\n]*" )* \s* \{ )
    """
)
"""The beginning of a file that Terraform reads (HCL), and of a plan that it saves (a ZIP archive)."""
_MESSAGES = re.compile(rb'\s*\{\s*"@level"')
"""The beginning of what `terraform plan -json` and `terraform apply -json` write, an object a line."""
_PREFIX = "rabbitmq_"
_STRINGS = [str]
_RULE = [{"pattern": str, "priority": int, "apply_to": str, "definition": dict}]

RESOURCES: Mapping[str, Mapping[str, Any]] = {
    "rabbitmq_vhost": {
        "name": str,
        "description": str,
        "default_queue_type": str,
        "tracing": bool,
        "max_connections": str,
        "max_queues": str,
    },
    "rabbitmq_queue": {
        "name": str,
        "vhost": str,
        "settings": [{"durable": bool, "auto_delete": bool, "arguments": dict, "arguments_json": str}],
    },
    "rabbitmq_exchange": {
        "name": str,
        "vhost": str,
        "settings": [{"type": str, "durable": bool, "auto_delete": bool, "arguments": dict}],
    },
    "rabbitmq_binding": {
        "source": str,
        "vhost": str,
        "destination": str,
        "destination_type": ("queue", "exchange"),
        "properties_key": str,
        "routing_key": str,
        "arguments": dict,
        "arguments_json": str,
    },
    "rabbitmq_policy": {"name": str, "vhost": str, "policy": _RULE},
    "rabbitmq_operator_policy": {"name": str, "vhost": str, "policy": _RULE},
    "rabbitmq_user": {"name": str, "password": str, "tags": _STRINGS},
    "rabbitmq_permissions": {
        "user": str,
        "vhost": str,
        "permissions": [{"configure": str, "write": str, "read": str}],
    },
    "rabbitmq_topic_permissions": {
        "user": str,
        "vhost": str,
        "permissions": [{"exchange": str, "write": str, "read": str}],
    },
    "rabbitmq_shovel": {
        "name": str,
        "vhost": str,
        "info": [
            {
                "ack_mode": str,
                "add_forward_headers": bool,
                "delete_after": str,
                "destination_add_forward_headers": bool,
                "destination_add_timestamp_header": bool,
                "destination_address": str,
                "destination_application_properties": dict,
                "destination_exchange": str,
                "destination_exchange_key": str,
                "destination_properties": dict,
                "destination_protocol": str,
                "destination_publish_properties": dict,
                "destination_queue": str,
                "destination_queue_arguments": dict,
                "destination_uri": str,
                "prefetch_count": int,
                "reconnect_delay": int,
                "source_address": str,
                "source_delete_after": str,
                "source_exchange": str,
                "source_exchange_key": str,
                "source_prefetch_count": int,
                "source_protocol": str,
                "source_queue": str,
                "source_uri": str,
            }
        ],
    },
    "rabbitmq_federation_upstream": {
        "name": str,
        "vhost": str,
        "component": str,
        "definition": [
            {
                "uri": str,
                "prefetch_count": int,
                "reconnect_delay": int,
                "ack_mode": str,
                "trust_user_id": bool,
                "exchange": str,
                "max_hops": int,
                "expires": int,
                "message_ttl": int,
                "queue": str,
            }
        ],
    },
}
"""The fields of each resource, as ``checked`` takes them; each has an ``id`` besides."""
_NOT_READ = ("id", "properties_key", "component", "password")
_OPTIONAL = {
    "rabbitmq_vhost": ("description", "default_queue_type", "tracing", "max_connections", "max_queues"),
    "rabbitmq_user": ("tags",),
}
_SERVERS_WORDS = (("destination_", "dest_"), ("source_", "src_"), ("arguments", "args"), ("_", "-"))


class _Resource:
    """A resource of the provider, without what Terraform knows only after it applies the plan."""

    def __init__(self, document: Document, path: Path, given: Mapping[str, Any], unknown: Any) -> None:
        self.kind = str(given["type"])
        self.document = document.part(path, given, str(given.get("address", given.get("name", ""))))
        self.place = self.document.place()
        values = given.get("values")
        fields = RESOURCES[self.kind]
        if not isinstance(values, dict):
            raise self.error((), "missing; expected an object")
        known = {name: each for name, each in values.items() if name in fields}
        self.values: dict[str, Any] = checked(self.document, ("values",), known, fields)
        self.not_known_here = sorted({*values} - {*fields, "id"})
        self.unknown = [each for each in _unknown(unknown) if each[0] not in _NOT_READ]

    @property
    def missing(self) -> list[str]:
        """The fields without which the resource cannot be identified, if any is unknown before the plan is applied."""
        optional = _OPTIONAL.get(self.kind, ())
        return [shown_path(each) for each in self.unknown if each[0] not in optional and not self._within_a_map(each)]

    def _within_a_map(self, path: Path) -> bool:
        """Return whether a path leads to a setting that a queue, an exchange, a policy or a link may be without."""
        if self.kind in ("rabbitmq_policy", "rabbitmq_operator_policy"):
            return len(path) > 3
        return len(path) > 2 and (path[0] in ("info", "definition") or path[2] in ("arguments", "arguments_json"))

    @property
    def vhost(self) -> str:
        return str(self.values.get("vhost", "/"))

    def required(self, field: str) -> Any:
        if field not in self.values:
            raise self.error((field,), "missing")
        return self.values[field]

    def block(self, name: str) -> dict[str, Any]:
        """Return the block of that name, of which there is one."""
        found: list[dict[str, Any]] = self.required(name)
        if len(found) != 1:
            raise self.error((name,), f"expected one block, got {len(found)}")
        return found[0]

    def arguments(self, given: Mapping[str, Any], *path: str | int) -> dict[str, Any]:
        """Return the arguments: those in JSON with their types; the others are strings, which is what servers get."""
        text = given.get("arguments_json")
        if not text:
            return dict(given.get("arguments", {}))
        try:
            arguments = read_json(text.encode())
        except msgspec.DecodeError as error:
            raise self.error((*path, "arguments_json"), f"not JSON: {error}") from error
        if not isinstance(arguments, dict):
            raise self.error((*path, "arguments_json"), "expected an object in JSON")
        return arguments

    def error(self, path: Sequence[str | int], problem: str) -> DefinitionsError:
        where = shown_path(("values", *path))
        return DefinitionsError(str(self.place), where, problem)

    def defines(self, section: str, **item: Any) -> Defined:
        return Defined(section, item, self.place)


def _unknown(after: Any, path: Path = ()) -> Iterator[Path]:
    """Yield the paths to what a plan marks as unknown."""
    if after is True:
        yield path
    for step, each in after.items() if isinstance(after, dict) else enumerate(after if isinstance(after, list) else ()):
        yield from _unknown(each, (*path, step))


def _vhost(given: _Resource) -> Iterator[Found]:
    values = given.values
    metadata = {"description": values.get("description", ""), "tags": []}
    if values.get("default_queue_type"):
        metadata["default_queue_type"] = values["default_queue_type"]
    name = given.required("name")
    yield given.defines("vhosts", name=name, tracing=values.get("tracing", False), metadata=metadata)
    limits = {each.replace("_", "-"): values[each] for each in ("max_connections", "max_queues") if values.get(each)}
    for limit, value in limits.items():
        if not re.fullmatch(r"[+-]?\d+", value):
            raise given.error((limit.replace("-", "_"),), f"expected an integer, got {value!r}")
    if limits:
        whole = {limit: int(value) for limit, value in limits.items()}
        yield given.defines("parameters", vhost=name, component="vhost-limits", name="limits", value=whole)


def _queue(given: _Resource) -> Iterator[Found]:
    settings = given.block("settings")
    if digits := [name for name, value in settings.get("arguments", {}).items() if _whole(value) != value]:
        told = ", ".join(digits)
        yield Remark(f"{given.place}: servers get strings for {told}; `arguments_json` hands on numbers")
    yield given.defines(
        "queues",
        name=given.required("name"),
        vhost=given.vhost,
        durable=settings.get("durable", False),
        auto_delete=settings.get("auto_delete", False),
        arguments=given.arguments(settings, "settings", 0),
    )


def _exchange(given: _Resource) -> Iterator[Found]:
    settings = given.block("settings")
    yield given.defines(
        "exchanges",
        name=given.required("name"),
        vhost=given.vhost,
        type=settings.get("type", "direct"),
        durable=settings.get("durable", False),
        auto_delete=settings.get("auto_delete", False),
        internal=False,
        arguments=settings.get("arguments", {}),
    )


def _binding(given: _Resource) -> Iterator[Found]:
    yield given.defines(
        "bindings",
        source=given.required("source"),
        vhost=given.vhost,
        destination=given.required("destination"),
        destination_type=given.required("destination_type"),
        routing_key=given.values.get("routing_key", ""),
        arguments=given.arguments(given.values),
    )


def _rule(given: _Resource) -> dict[str, Any]:
    """Return the policy as the provider sends it: it makes integers of strings, and nothing else of them."""
    rule = given.block("policy")
    definition = {key: _whole(value) for key, value in rule.get("definition", {}).items()}
    if definition.get("ha-mode") == "nodes" and isinstance(definition.get("ha-params"), str):
        definition["ha-params"] = definition["ha-params"].split(",")
    return {
        "pattern": rule.get("pattern", ""),
        "apply-to": rule.get("apply_to", "all"),
        "definition": definition,
        "priority": rule.get("priority", 0),
    }


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, str) and re.fullmatch(r"[+-]?[0-9]+", value) else value


def _policy(given: _Resource) -> Iterator[Found]:
    yield given.defines("policies", vhost=given.vhost, name=given.required("name"), **_rule(given))


def _parameter(given: _Resource, component: str, value: Mapping[str, Any]) -> Defined:
    name = given.required("name")
    return given.defines("parameters", vhost=given.vhost, component=component, name=name, value=dict(value))


def _operator_policy(given: _Resource) -> Iterator[Found]:
    yield _parameter(given, "operator_policy", _rule(given))


def _user(given: _Resource) -> Iterator[Found]:
    yield given.defines("users", name=given.required("name"), password_hash="", tags=given.values.get("tags", []))


def _permissions(given: _Resource) -> Iterator[Found]:
    rights = given.block("permissions")
    allowed = {right: rights.get(right, "") for right in ("configure", "write", "read")}
    yield given.defines("permissions", user=given.required("user"), vhost=given.vhost, **allowed)


def _topic_permissions(given: _Resource) -> Iterator[Found]:
    for rights in given.required("permissions"):
        allowed = {right: rights.get(right, "") for right in ("exchange", "write", "read")}
        yield given.defines("topic_permissions", user=given.required("user"), vhost=given.vhost, **allowed)


def _shovel(given: _Resource) -> Iterator[Found]:
    info = given.block("info")
    uris = {f"{end}-uri": [info.get(f"{name}_uri", "")] for end, name in (("src", "source"), ("dest", "destination"))}
    settings = _settings(info)
    for each in ("delete-after", "src-delete-after"):
        if each in settings:
            settings[each] = _whole(settings[each])
    yield _parameter(given, "shovel", settings | uris)


def _federation_upstream(given: _Resource) -> Iterator[Found]:
    definition = given.block("definition")
    always = {"reconnect-delay": 0, "trust-user-id": False}
    uris = {"uri": [definition.get("uri", "")]}
    yield _parameter(given, "federation-upstream", always | _settings(definition) | uris)


def _settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is set of a shovel or an upstream by the names that servers have: what is empty is not sent."""
    found = {}
    for name, value in given.items():
        for word, servers in _SERVERS_WORDS:
            name = name.replace(word, servers)
        if value:
            found[name] = value
    return found


_DECLARED: Mapping[str, Callable[[_Resource], Iterator[Found]]] = {
    "rabbitmq_vhost": _vhost,
    "rabbitmq_queue": _queue,
    "rabbitmq_exchange": _exchange,
    "rabbitmq_binding": _binding,
    "rabbitmq_policy": _policy,
    "rabbitmq_operator_policy": _operator_policy,
    "rabbitmq_user": _user,
    "rabbitmq_permissions": _permissions,
    "rabbitmq_topic_permissions": _topic_permissions,
    "rabbitmq_shovel": _shovel,
    "rabbitmq_federation_upstream": _federation_upstream,
}


def _recognises(document: Document) -> bool:
    value = document.value
    if value is None:
        return any(each.match(document.data) for each in (_NOT_JSON, _MESSAGES))
    return isinstance(value, dict) and (
        isinstance(value.get("terraform_version"), str)
        or value.keys() == {"format_version"}
        or _MESSAGES.match(document.data) is not None
    )


def _read(documents: Sequence[Document]) -> Iterator[Found]:
    for document in documents:
        if _MESSAGES.match(document.data):
            raise DefinitionsError(document.file, "", f"messages of `terraform plan -json`; {SHOW}")
        if document.value is None:
            raise document.error((), f"a file of Terraform's; {SHOW}")
        if "format_version" not in document.value:
            raise document.error((), f"a state as Terraform keeps it; {SHOW}")
        yield from _read_shown(document)


def _read_shown(document: Document) -> Iterator[Found]:
    value = document.value
    version = str(value["format_version"])
    if version.partition(".")[0] not in ("0", "1"):
        raise document.error(("format_version",), f"expected 1 and what is behind the point, got {version!r}")
    if value.get("errored") or value.get("complete") is False:
        yield Remark(f"{document.place()}: the plan is not complete: resources may be missing")
    changes = value.get("resource_changes") or []
    unknown = {each.get("address"): each.get("change", {}).get("after_unknown") for each in changes}
    section = "planned_values" if "planned_values" in value else "values"
    others: Counter[str] = Counter()
    is_empty = True
    for path, given in _resources(document, (section, "root_module"), value.get(section, {}).get("root_module", {})):
        kind = str(given.get("type"))
        is_empty &= not kind.startswith(_PREFIX)
        if given.get("mode") == "data" or kind not in RESOURCES:
            others["data sources" if given.get("mode") == "data" else kind] += 1
            continue
        yield from _of_resource(_Resource(document, path, given, unknown.get(given.get("address"))))
    if others:
        told = ", ".join(f"{kind} ({count}){_meant(kind)}" for kind, count in sorted(others.items()))
        yield Remark(f"{document.file}: left out, since they define nothing of a server that is known here: {told}")
    if is_empty:
        deleted = [each for each in changes if str(each.get("type")).startswith(_PREFIX)]
        what = f"this {'state' if section == 'values' else 'plan'} has no resources of the provider rabbitmq"
        yield Empty(f"{document.file}: {what}{f': it deletes {len(deleted)}' if deleted else ''}")


def _meant(kind: str) -> str:
    near = nearest(kind, RESOURCES) if kind.startswith(_PREFIX) else []
    return f", did you mean {near[0]!r}?" if near else ""


def _resources(document: Document, path: Path, module: Any) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield the resources of a module and of those below it, each instance of `count` and `for_each` by itself."""
    if not isinstance(module, dict):
        raise document.error(path, "expected an object")
    for name in ("resources", "child_modules"):
        for at, each in enumerate(module.get(name) or ()):
            if not isinstance(each, dict):
                raise document.error((*path, name, at), "expected an object")
            if name == "resources":
                yield (*path, name, at), each
            else:
                yield from _resources(document, (*path, name, at), each)


def _of_resource(given: _Resource) -> Iterator[Found]:
    if given.missing:
        yield Remark(f"{given.place}: left out: known only after apply: {', '.join(given.missing)}")
        return
    if given.unknown:
        told = ", ".join(map(shown_path, given.unknown))
        yield Remark(f"{given.place}: taken as not set, since it is known only after apply: {told}", assumes=True)
    if given.not_known_here:
        yield Remark(f"{given.place}: fields that are not known here and left out: {', '.join(given.not_known_here)}")
    yield from _DECLARED[given.kind](given)


TERRAFORM = Reader("what `terraform show -json` writes", _recognises, _read)
