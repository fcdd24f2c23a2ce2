"""Configurations of Rascal for Node.js: what it declares on a server when a broker is created.

Source: `lib/config/` and `lib/amqp/tasks/` of onebeyond/rascal 21.0, which refuses unknown fields as here, and what
amqplib 2.3 makes of the options (`lib/api_args.js`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from dlx.nearest_names import suggestion
from simulator.definitions.places import Path
from simulator.sources.document import Defined, Document, Empty, Found, Reader, Remark
from simulator.sources.fields import HAS_PASSWORD, amqp_url, checked, is_password

_BINDING = re.compile(r"(?P<source>[\w:.\-]+)\s*(?:\[\s*(?P<keys>.*)\s*\])?\s*->\s*(?P<destination>[\w:.\-]+)")
_UUID = "{uuid}"
"""Stands for what is another word each time that the application starts."""
_NAMED = {"fullyQualifiedName": str, "name": str}
_DECLARED = {**_NAMED, "assert": bool, "check": bool, "type": str}
_QUEUE_OPTIONS = {
    "expires": "x-expires",
    "messageTtl": "x-message-ttl",
    "deadLetterExchange": "x-dead-letter-exchange",
    "deadLetterRoutingKey": "x-dead-letter-routing-key",
    "maxLength": "x-max-length",
    "maxPriority": "x-max-priority",
    "overflow": "x-overflow",
    "queueMode": "x-queue-mode",
}
_EXCHANGE_OPTIONS = {"alternateExchange": "alternate-exchange"}
"""The arguments that options stand for."""
_IS_IGNORED = "expires"
"""An option of exchanges in Rascal's JSON schema, of which amqplib makes nothing."""
FIELDS: Mapping[str, Mapping[str, Any]] = {
    "vhost": dict.fromkeys(
        (
            "defaults",
            "namespace",
            "name",
            "concurrency",
            "publicationChannelPools",
            "connection",
            "connections",
            "connectionStrategy",
            "exchanges",
            "queues",
            "bindings",
            "check",
            "assert",
            "publications",
            "subscriptions",
        ),
        object,
    ),
    "exchange": {
        **_DECLARED,
        "options": {
            **dict.fromkeys(("durable", "autoDelete", "internal"), bool),
            "alternateExchange": str,
            "arguments": dict,
            _IS_IGNORED: int,
        },
    },
    "queue": {
        **_DECLARED,
        "purge": bool,
        "replyTo": object,
        "options": {
            **dict.fromkeys(("durable", "autoDelete", "exclusive"), bool),
            **dict.fromkeys(("expires", "messageTtl", "maxLength", "maxPriority"), int),
            **dict.fromkeys(("deadLetterExchange", "deadLetterRoutingKey", "overflow", "queueMode"), str),
            "arguments": dict,
        },
    },
    "binding": {
        **_NAMED,
        "source": str,
        "destination": str,
        "destinationType": ("queue", "exchange"),
        "bindingKey": object,
        "bindingKeys": object,
        "qualifyBindingKeys": bool,
        "options": dict,
    },
    "publication": dict.fromkeys(
        (
            "name",
            "vhost",
            "exchange",
            "queue",
            "routingKey",
            "confirm",
            "options",
            "destination",
            "autoCreated",
            "deprecated",
            "encryption",
            "replyTo",
            "timeout",
        ),
        object,
    ),
    "subscription": dict.fromkeys(
        (
            "name",
            "vhost",
            "queue",
            "contentType",
            "options",
            "prefetch",
            "channelPrefetch",
            "retry",
            "source",
            "recovery",
            "workflow",
            "handler",
            "workflows",
            "handlers",
            "redeliveries",
            "autoCreated",
            "deprecated",
            "closeTimeout",
            "encryption",
            "promisifyAckOrNack",
        ),
        object,
    ),
}
"""The fields of each part, as ``checked`` takes them."""
_BASELINE = {
    "exchanges": {"assert": True, "type": "topic", "options": {}},
    "queues": {"assert": True, "options": {"arguments": {}}},
    "bindings": {"destinationType": "queue", "bindingKey": "#", "options": {}},
}
_TELLING = ("exchanges", "queues", "bindings", "connection", "connections", "publications", "subscriptions")
_SAYS_NOTHING = (
    "{place}: {what}: they declare nothing; what Rascal does with failures (redelivery limits, republish, forward) "
    "is the application's and is not read"
)


class _Vhost:
    """A virtual host of a configuration, with the defaults of both laid under it."""

    def __init__(self, document: Document, key: str, given: Any) -> None:
        self.document, self.path = document, ("vhosts", key)
        value = checked(document, self.path, given, FIELDS["vhost"])
        above = _object(document, ("defaults",), document.value.get("defaults"))
        above = _object(document, ("defaults", "vhosts"), above.get("vhosts"))
        own = _object(document, (*self.path, "defaults"), value.get("defaults"))
        self.given: dict[str, Any] = value
        self.defaults = _with_defaults(_with_defaults(own, above), _BASELINE)
        namespace = value.get("namespace", above.get("namespace"))
        self.namespace = _UUID if namespace is True else str(namespace or "")
        self.name = _connected(value, key)
        self.exchanges = self._collection("exchanges", "exchange")
        self.queues = self._collection("queues", "queue")

    def _collection(self, section: str, kind: str) -> dict[str, tuple[Path, dict[str, Any]]]:
        """Return the parts of a section by name, with the path to each: a list has names, or objects with one."""
        found = {}
        for path, name, each in _keyed(self.document, (*self.path, section), self.given.get(section)):
            fields = self.fields_of(path, each, kind)
            if kind == "queue":
                self._qualify_dead_letter_exchange(fields)
            found[name] = path, _with_defaults(fields, self.defaults[section])
        return found

    def fields_of(self, path: Path, value: dict[str, Any], kind: str) -> dict[str, Any]:
        options = value.get("options")
        for name in options if isinstance(options, dict) and kind != "binding" else ():
            if name.startswith("x-"):
                problem = "amqplib ignores it; arguments belong in options.arguments"
                raise self.document.error((*path, "options", name), problem)
        fields: dict[str, Any] = checked(self.document, path, value, FIELDS[kind])
        return fields

    def _qualify_dead_letter_exchange(self, queue: dict[str, Any]) -> None:
        """Rascal does so in the arguments of the queue itself: neither in options nor in defaults."""
        arguments = queue.get("options", {}).get("arguments", {})
        if "x-dead-letter-exchange" in arguments:
            name = self.qualified(arguments["x-dead-letter-exchange"])
            queue["options"] = {**queue["options"], "arguments": {**arguments, "x-dead-letter-exchange": name}}

    def qualified(self, name: str, unique: Any = None) -> str:
        if not name:
            return name
        prefix = f"{self.namespace}:" if self.namespace else ""
        suffix = f":{_UUID if unique is True else unique}" if unique else ""
        return f"{prefix}{name}{suffix}"

    def server_name(self, parts: Mapping[str, tuple[Path, dict[str, Any]]], name: str) -> str:
        """Return the name that an exchange or a queue has on the server."""
        fields = parts[name][1]
        return str(fields.get("fullyQualifiedName") or self.qualified(name, fields.get("replyTo")))


def _object(document: Document, path: Path, value: Any) -> dict[str, Any]:
    if not isinstance(value or {}, dict):
        raise document.error(path, "expected an object")
    return value or {}


def _with_defaults(given: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return the defaults with what is given in their place, in objects within objects, too."""
    found = {**defaults, **given}
    for name in given.keys() & defaults.keys():
        if isinstance(given[name], dict) and isinstance(defaults[name], dict):
            found[name] = _with_defaults(given[name], defaults[name])
    return found


def _keyed(document: Document, path: Path, value: Any) -> Iterator[tuple[Path, str, dict[str, Any]]]:
    """Yield the parts of a list of names and objects, or of an object by name: the path, the name and the part."""
    if isinstance(value, list):
        for at, each in enumerate(value):
            if not isinstance(each, str | dict):
                raise document.error((*path, at), "expected a name, or an object with one")
            name = each if isinstance(each, str) else str(each.get("name", f"unnamed-{_UUID}"))
            yield (*path, at), name, {} if isinstance(each, str) else each
    else:
        for name, each in _object(document, path, value).items():
            yield (*path, name), name, _object(document, (*path, name), each)


def _connected(vhost: Mapping[str, Any], key: str) -> str:
    """Return the virtual host of the server: that of the connection's URL, which is / where it has none."""
    first: Any = next(iter(_connections(vhost)), {})
    url = _url(first)
    if isinstance(url, str):
        parts = amqp_url(url)
        return unquote(parts.path)[1:] or "/" if parts else key
    return str(first.get("vhost") or key) if isinstance(first, dict) else key


def _connections(vhost: Mapping[str, Any]) -> list[Any]:
    return [each for each in (*(vhost.get("connections") or []), vhost.get("connection")) if each]


def _url(connection: Any) -> Any:
    return connection.get("url") if isinstance(connection, dict) else connection


def _has_password(connection: Any) -> bool:
    url, own = _url(connection), connection.get("password") if isinstance(connection, dict) else None
    parts = amqp_url(url) if isinstance(url, str) else None
    return is_password(own) or (parts is not None and is_password(parts.password))


def _arguments(options: Mapping[str, Any], named: Mapping[str, str]) -> dict[str, Any]:
    own = {argument: options[option] for option, argument in named.items() if option in options}
    return {**options.get("arguments", {}), **own}


def _of_vhost(vhost: _Vhost) -> Iterator[Found]:
    document, place = vhost.document, vhost.document.place(*vhost.path)
    if vhost.name != vhost.path[1]:
        yield Remark(f"{place}: the connection of {vhost.path[1]!r} is to virtual host {vhost.name!r}")
    if any(map(_has_password, _connections(vhost.given))):
        yield Remark(f"{place}: {HAS_PASSWORD}")
    if vhost.namespace == _UUID:
        yield Remark(f"{place}: the namespace is another one at each start: {_UUID!r} stands for it")
    if vhost.given.get("assert") is True:
        yield Defined("vhosts", {"name": vhost.name}, place)
    for section, parts in (("exchanges", vhost.exchanges), ("queues", vhost.queues)):
        for name, (path, fields) in parts.items():
            if not name:
                continue
            if not fields["assert"]:
                yield Remark(f"{document.place(*path)}: {name!r} is not asserted, so Rascal declares none: left out")
                continue
            if section == "queues":
                yield from _about(document, path, name, fields)
            yield Defined(section, _item(vhost, section, name, fields), document.place(*path))
    for path, name, given in _keyed(document, (*vhost.path, "bindings"), vhost.given.get("bindings")):
        yield from _bindings(vhost, path, name, vhost.fields_of(path, given, "binding"))


def _about(document: Document, path: Path, name: str, queue: Mapping[str, Any]) -> Iterator[Remark]:
    if queue.get("purge"):
        yield Remark(f"{document.place(*path)}: Rascal empties queue {name!r} at each start")
    if queue.get("replyTo") is True:
        yield Remark(f"{document.place(*path)}: the name of queue {name!r} has another end each time: {_UUID!r} here")


def _item(vhost: _Vhost, section: str, name: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    options = fields["options"]
    is_queue = section == "queues"
    item = {
        "name": vhost.server_name(vhost.queues if is_queue else vhost.exchanges, name),
        "vhost": vhost.name,
        "durable": options.get("durable", True),
        "auto_delete": options.get("autoDelete", False),
        "arguments": _arguments(options, _QUEUE_OPTIONS if is_queue else _EXCHANGE_OPTIONS),
    }
    if not is_queue:
        return item | {"type": fields["type"], "internal": options.get("internal", False)}
    return item | ({"exclusive": True} if options.get("exclusive") else {})


def _bindings(vhost: _Vhost, path: Path, name: str, given: dict[str, Any]) -> Iterator[Found]:
    """Yield a binding for each of its keys; ``source[key, key] -> destination`` is short for its fields."""
    short = _BINDING.fullmatch(name.strip()) or _BINDING.search(name)
    named = {} if short is None else {"source": short["source"], "destination": short["destination"]}
    fields = _with_defaults({**named, **given}, vhost.defaults["bindings"])
    for end in ("source", "destination"):
        if not fields.get(end):
            problem = "missing; expected the name of one, or the binding as 'exchange[key, key] -> queue'"
            raise vhost.document.error((*path, end), problem)
    to_queue = fields["destinationType"] == "queue"
    ends = {"source": vhost.exchanges, "destination": vhost.queues if to_queue else vhost.exchanges}
    for end, parts in ends.items():
        if fields[end] not in parts:
            kind = "exchange" if parts is vhost.exchanges else "queue"
            problem = f"no {kind} {fields[end]!r} in this virtual host; {suggestion(fields[end], parts)}"
            raise vhost.document.error((*path, end), problem)
    for key in _keys(given, short["keys"] if short else None) or [fields["bindingKey"]]:
        item = {
            "source": vhost.server_name(vhost.exchanges, fields["source"]),
            "vhost": vhost.name,
            "destination": vhost.server_name(ends["destination"], fields["destination"]),
            "destination_type": fields["destinationType"],
            "routing_key": vhost.qualified(str(key)) if fields.get("qualifyBindingKeys") else str(key),
            "arguments": fields["options"],
        }
        yield Defined("bindings", item, vhost.document.place(*path))


def _keys(given: Mapping[str, Any], short: str | None) -> list[str]:
    """Return the keys of a binding, each once: those of its fields, and those in its name."""
    found: list[str] = []
    for field in ("bindingKeys", "bindingKey"):
        value = given.get(field, [])
        found += [str(each) for each in (value if isinstance(value, list) else [value])]
    found += re.split(r"[,\s]+", short or "")
    return list(dict.fromkeys(filter(None, found)))


def _links(document: Document, vhosts: Sequence[_Vhost]) -> Iterator[Found]:
    """Check what publications and subscriptions are for, and say that they declare nothing."""
    by_key = {str(vhost.path[1]): vhost for vhost in vhosts}
    counts: dict[str, int] = {}
    for kind in ("publication", "subscription"):
        for path, given, key in _links_of(document, f"{kind}s", vhosts):
            counts[f"{kind}s"] = counts.get(f"{kind}s", 0) + 1
            fields = checked(document, path, given, FIELDS[kind])
            key = str(fields.get("vhost", key))
            if key not in by_key:
                raise document.error((*path, "vhost"), f"no virtual host {key!r} here; {suggestion(key, by_key)}")
            vhost = by_key[key]
            for end, parts in (("exchange", vhost.exchanges), ("queue", vhost.queues)):
                if name := fields.get(end):
                    _check_there(document, (*path, end), str(name), parts)
    counts |= {each: len(document.value[each]) for each in ("shovels", "recovery") if document.value.get(each)}
    if counts:
        what = ", ".join(f"{each} ({count})" for each, count in counts.items())
        yield Remark(_SAYS_NOTHING.format(place=document.place(), what=what))


def _links_of(document: Document, section: str, vhosts: Sequence[_Vhost]) -> Iterator[tuple[Path, dict[str, Any], str]]:
    above = _object(document, ("defaults", section), (document.value.get("defaults") or {}).get(section))
    for path, _, each in _keyed(document, (section,), document.value.get(section)):
        yield path, each, str(above.get("vhost", "/"))
    for vhost in vhosts:
        for path, _, each in _keyed(document, (*vhost.path, section), vhost.given.get(section)):
            yield path, each, str(vhost.path[1])


def _check_there(document: Document, path: Path, name: str, parts: Iterable[str]) -> None:
    known = [each for each in parts if each]
    if name not in known:
        raise document.error(path, f"no {path[-1]} {name!r} in its virtual host; {suggestion(name, known)}")


def _is_configuration(value: Any) -> bool:
    """Take what has virtual hosts by name; in an export they are a list."""
    vhosts = value.get("vhosts") if isinstance(value, dict) else None
    return isinstance(vhosts, dict) and any(
        isinstance(each, dict) and any(section in each for section in _TELLING) for each in vhosts.values()
    )


def _configuration(document: Document) -> Document | None:
    """Return the document, or the first object in it that is a configuration: programs have it among their own."""
    value = document.value
    if _is_configuration(value) or (isinstance(value, dict) and value.get("vhosts") == {}):
        return document
    for path, each in document.values():
        if _is_configuration(each) and (path[-1] == "rascal" or _has_known_fields(each["vhosts"])):
            return document.part(path, each)
    return None


def _has_known_fields(vhosts: Mapping[str, Any]) -> bool:
    return all(isinstance(each, dict) and each.keys() <= FIELDS["vhost"].keys() for each in vhosts.values())


def _recognises(document: Document) -> bool:
    return _configuration(document) is not None


def _read(documents: Sequence[Document]) -> Iterator[Found]:
    for each in documents:
        document = _configuration(each)
        assert document is not None
        if document is not each:
            yield Remark(f"{document.place()}: what has `vhosts` here is taken for a configuration of Rascal")
        vhosts = [_Vhost(document, str(key), given) for key, given in document.value["vhosts"].items()]
        found = [part for vhost in vhosts for part in _of_vhost(vhost)]
        yield from found
        yield from _links(document, vhosts)
        if not any(isinstance(part, Defined) for part in found):
            yield Empty(f"{document.place()}: this configuration of Rascal declares nothing")


RASCAL = Reader("a configuration of Rascal", _recognises, _read)
