"""The definitions of a running server: its export or, for a user who is no administrator, what that user may read.

An export takes the tag administrator. With any other tag of the management API a user reads queues, exchanges,
bindings, policies, operator policies and limits of the virtual hosts that the user has permissions for, and with the
tag policymaker also parameters (live, 3.8.9, 3.10.8, 4.0.5 and 4.3.6).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote

import msgspec

from simulator.capture.access import credentials
from simulator.capture.management_api import REFUSED, ManagementError, call, fetched, is_refusal

_FIELDS = {
    "queues": ("name", "durable", "auto_delete", "arguments"),
    "exchanges": ("name", "type", "durable", "auto_delete", "internal", "arguments"),
    "bindings": ("source", "destination", "destination_type", "routing_key", "arguments"),
    "policies": ("name", "pattern", "apply-to", "definition", "priority"),
}
_OPERATOR_POLICY, _LIMITS = "operator_policy", "vhost-limits"
_OF_VHOST = ("description", "tags", "metadata", "default_queue_type")
_MISSING: tuple[object, ...] = (None, "", [], "undefined")


class ServerDefinitions(msgspec.Struct, frozen=True):
    """Definitions of a server: an export's JSON text, and what it lacks since the user may not read it."""

    data: bytes
    unseen: tuple[str, ...] = ()

    def remarks(self, url: str) -> tuple[str, ...]:
        """Return what to say of them, in sentences."""
        if not self.unseen:
            return ()
        user = credentials(url)[0]
        return (f"the user {user!r} is no administrator, so this was not seen: {'; '.join(self.unseen)}",)


def path_of_definitions(vhost: str | None) -> str:
    """Return where the definitions of the server, or of one virtual host, are below ``/api/``."""
    return "definitions" if vhost is None else f"definitions/{quote(vhost, safe='')}"


def definitions_on(url: str, vhost: str | None = None) -> ServerDefinitions:
    """Return the definitions of the server, or of one virtual host.

    Args:
        url: management URL.
        vhost: name of the only virtual host that is meant, if one is.

    Raises ``ManagementError`` when the API refuses, ``OSError`` when it does not answer.
    """
    try:
        return ServerDefinitions(fetched(url, path_of_definitions(vhost)))
    except ManagementError as error:
        if not is_refusal(error):
            raise
    return _in_parts(url, vhost)


def _in_parts(url: str, vhost: str | None) -> ServerDefinitions:
    """Return what the user may read of the definitions. Raises as ``definitions_on``."""
    version = call(url, "overview")["rabbitmq_version"]
    unseen = ["users, permissions and global parameters"]
    parameters = _parameters(url)
    if parameters is None:
        unseen.append("parameters, such as shovels and federation upstreams")
    document: dict[str, Any] = {"rabbitmq_version": version, "rabbit_version": version}
    hosts = [each for each in call(url, "vhosts") if vhost in (None, each["name"])]
    if vhost is None:
        unseen += [] if _sees_all_vhosts(url) else ["virtual hosts that the user has no permissions for"]
        document["vhosts"] = []
    else:
        document |= {"rabbitmq_definition_format": "single_virtual_host", "original_vhost_name": vhost}
        hosts = hosts or [{"name": vhost}]
    for section in (*_FIELDS, "parameters"):
        document[section] = []
    for host in hosts:
        name = host["name"]
        try:
            found = _of_vhost(url, name, parameters or ())
        except ManagementError as error:
            if vhost is not None:
                raise
            unseen.append(f"the virtual host {name!r} ({error.reason})")
            continue
        own = {key: host[key] for key in _OF_VHOST if host.get(key) not in _MISSING}
        if vhost is None:
            document["vhosts"].append({"name": name, **own})
        else:
            document |= own
        for section, items in found.items():
            document[section] += [{**item, "vhost": name} if vhost is None else item for item in items]
    return ServerDefinitions(json.dumps(document).encode(), tuple(unseen))


def _sees_all_vhosts(url: str) -> bool:
    tags = call(url, "whoami")["tags"]
    return "monitoring" in (tags.split(",") if isinstance(tags, str) else tags)


def _parameters(url: str) -> list[dict[str, Any]] | None:
    """Return the parameters of all virtual hosts; ``None`` where the user may not read them."""
    try:
        found: list[dict[str, Any]] = call(url, "parameters")
    except ManagementError as error:
        if not is_refusal(error):
            raise
        return None
    return [each for each in found if each["component"] not in (_OPERATOR_POLICY, _LIMITS)]


def _of_vhost(url: str, name: str, parameters: Iterable[Mapping[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Return the sections of an export of one virtual host, without its name."""
    vhost = quote(name, safe="")
    listed = {section: _listed(url, f"{section}/{vhost}") for section in _FIELDS}
    listed["queues"] = [each for each in listed["queues"] if not each.get("exclusive")]
    listed["exchanges"] = [each for each in listed["exchanges"] if each["name"] and not each["name"].startswith("amq.")]
    listed["bindings"] = [each for each in listed["bindings"] if each["source"]]
    found = {section: [_only(each, fields) for each in listed[section]] for section, fields in _FIELDS.items()}
    of_operator = _listed(url, f"operator-policies/{vhost}")
    value = tuple(field for field in _FIELDS["policies"] if field != "name")
    found["parameters"] = [
        *({"component": _OPERATOR_POLICY, "name": each["name"], "value": _only(each, value)} for each in of_operator),
        *(
            {"component": _LIMITS, "name": "limits", "value": each["value"]}
            for each in _listed(url, f"vhost-limits/{vhost}")
        ),
        *(_only(each, ("component", "name", "value")) for each in parameters if each["vhost"] == name),
    ]
    return found


def _listed(url: str, path: str) -> list[dict[str, Any]]:
    try:
        found: list[dict[str, Any]] = call(url, path)
    except ManagementError as error:
        if error.status != 404:
            raise
        raise ManagementError(
            f"GET /api/{path}", REFUSED[0], "no such virtual host, or no permissions there"
        ) from error
    return found


def _only(item: Mapping[str, Any], fields: Iterable[str]) -> dict[str, Any]:
    return {field: item[field] for field in fields if field in item}
