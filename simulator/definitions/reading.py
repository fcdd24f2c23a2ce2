"""Reads RabbitMQ's exported definitions: of a whole cluster, or of one virtual host.

Reads what ``rabbitmqctl export_definitions``, ``GET /api/definitions`` and
``GET /api/definitions/VHOST`` write, and makes a ``dlx.topology.Topology`` of
each virtual host. The document itself is kept, so that writing it again loses
nothing that is not understood here.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeGuard

import msgspec

from dlx.nearest_names import nearest, suggestion
from dlx.parameter_validation import is_number
from dlx.releases import DEFAULT, known_release, release
from dlx.topology import CLASSIC, QUORUM, STREAM, Binding, Exchange, Policy, Queue, Topology
from simulator.definitions.places import Place, Places, places_in_json, printable
from simulator.files import write_whole
from simulator.json_reading import (
    UTF8_MARK,
    NestedTooDeeplyError,
    place_of,
    read_first_of_equal_keys,
    read_json,
    strict_json,
    where_broken,
    why_not_utf8,
)
from simulator.markup import drawn

# Sections whose items belong to one virtual host.
_PER_VHOST = ("permissions", "topic_permissions", "parameters", "policies", "queues", "exchanges", "bindings")
# 3.x names the virtual host even in its own export, but only in parameters and policies.
_UNNAMED_IN_SINGLE = ("queues", "exchanges", "bindings")
_READ_BY_SERVERS = ("users", "permissions", "topic_permissions", "global_parameters")
_WITH_ARGUMENTS = ("queues", "exchanges", "bindings")
SECTIONS = frozenset({*_PER_VHOST, "users", "vhosts", "global_parameters"})
"""The sections of an export that hold objects."""
_NOT_AN_EXPORT = (
    "not a definitions export: it has none of queues, exchanges, bindings, policies, vhosts; "
    "write one with `rabbitmqctl export_definitions FILE` or GET /api/definitions"
)
_GZIP_MAGIC = b"\x1f\x8b"
_GZIPPED = "compressed with gzip; expected JSON: `gunzip` unpacks it"
_DEPTH_MAX = 100
_TOO_DEEP = "not a definitions export: lists and objects are nested too deeply to be read"
_NO_VHOST = (
    "missing; expected a string, the name of its virtual host "
    "(only an export of one virtual host goes without, and it has no `vhosts`)"
)
_TYPES = {"rabbit_classic_queue": CLASSIC, "rabbit_quorum_queue": QUORUM, "rabbit_stream_queue": STREAM}
_MEANS_DEFAULT = ("", "undefined")
"""Values of the argument x-queue-type that stand for the default of the virtual host."""
_EXPECTED = {
    str: "a string", bool: "true or false", int: "an integer", float: "a number", dict: "an object", list: "a list",
}  # fmt: skip
_REQUIRED = object()
_DESTINATIONS = ("queue", "exchange")
FIRST_COUNTS = ("queues", "exchanges")
"""The sections of which an import takes the first of several items with the same name; of others it takes the last."""
NO_KEY = "undefined"
"""The routing key with which servers bind where a document names none."""


class DefinitionsError(Exception):
    """Raised for a definitions file that cannot be used: names the file, the place, and what would be right there."""

    def __init__(self, source: str, where: str, problem: str) -> None:
        super().__init__(": ".join(part for part in (source, where, problem) if part))
        self.source = source
        self.where = where
        self.problem = problem


class Definitions:
    """An export, and the topologies in it.

    Attributes:
        source: name of the file, for messages.
        document: the export as plain JSON values. Treat it as read-only.
        single_vhost: whether it is the export of one virtual host.
        vhost_named: false for an export of one virtual host that does not say which (before RabbitMQ 4);
            its topology is then served under any name.
        vhosts: names of the virtual hosts.
        remarks: what to say of the text that it was read from, in sentences.
        assumptions: those of ``remarks`` on which answers rest: what is unknown yet, and how it is taken here.
        is_strict: whether the text is JSON as servers from 3.11 on read it.
        assumed_vhosts: those of ``vhosts`` that only other objects name, where files need not define them.
        is_imported: whether they are what a server imports, and not what tools declare one by one, beside others.
        is_recorded: whether they have what was ever declared, also what exports leave out.
        is_composed: whether they were put together from files that no server reads as they stand.
        is_of_server: whether they tell what a server has or had, rather than what one is to import.
    """

    remarks: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()
    is_strict = True
    assumed_vhosts: tuple[str, ...] = ()
    is_imported = True
    is_recorded = False
    is_composed = False
    is_of_server = False
    _text = b""

    def __init__(
        self, document: dict[str, Any], source: str, vhost: str | None = None, places: Places | None = None
    ) -> None:
        """Check the document. ``vhost`` names the virtual host of an export that does not.

        ``places`` tells where the sections and their items stand, where that is known.

        Raises:
            DefinitionsError: a field is missing or has the wrong type.
        """
        self.source = source
        self.document = document
        self._places = places
        self.single_vhost = _is_single(document)
        named = _vhost_name(document, source)
        self.vhost_named = not self.single_vhost or named is not None or vhost is not None
        for section in _READ_BY_SERVERS:
            if not isinstance(document.get(section, []), list):
                raise DefinitionsError(source, section, _mismatch(list, document[section]))
        self._topologies = _Reader(document, source, vhost).topologies()
        self.vhosts: tuple[str, ...] = tuple(self._topologies)

    @property
    def rabbitmq_version(self) -> str | None:
        """Return the version of the exporting server, such as ``4.0.5``, if the export has it."""
        return version_of(self.document)

    @property
    def undefined_users(self) -> tuple[str, ...]:
        """The users that permissions name and nothing here defines."""
        defined = {each.get("name") for each in self.document.get("users", ())}
        sections = (self.document.get(section, ()) for section in ("permissions", "topic_permissions"))
        named = dict.fromkeys(str(each.get("user")) for section in sections for each in section)
        return tuple(user for user in named if user not in defined)

    def place(self, section: str, index: int | None = None) -> Place | None:
        """Return where an item of a section stands, or the section itself; ``None`` where that is not known."""
        if self._places is None:
            self._places = places_in_json(self._text, self.source)
        return self._places.get((section,) if index is None else (section, index))

    @property
    def not_strict_at(self) -> Place | None:
        """Where the first thing stands that servers from 3.11 on do not take as JSON; ``None`` if there is none."""
        if self.is_strict:
            return None
        _, places = strict_json(self._text)
        return Place(printable(self.source), self._text.count(b"\n", 0, min(places.values())) + 1)

    def topology(self, vhost: str) -> Topology:
        """Return the topology of one virtual host.

        Raises:
            DefinitionsError: the export has no such virtual host.
        """
        if not self.vhost_named:
            return next(iter(self._topologies.values()))
        if vhost not in self._topologies:
            raise DefinitionsError(self.source, "", f"no virtual host {vhost!r}; {suggestion(vhost, self.vhosts)}")
        return self._topologies[vhost]

    def to_json(self, vhost: str | None = None) -> bytes:
        """Encode the document; with ``vhost``, the export of that virtual host alone.

        Raises:
            DefinitionsError: the export has no such virtual host.
        """
        if vhost is None:
            return msgspec.json.encode(self.document)
        self.topology(vhost)
        if self.single_vhost:
            return msgspec.json.encode({**self.document, "original_vhost_name": vhost})
        return msgspec.json.encode(self._one_vhost(vhost))

    def _repr_html_(self) -> str:
        """Return the topologies as notebooks show them: a picture, with its losses."""
        return drawn(self)

    def _one_vhost(self, vhost: str) -> dict[str, Any]:
        """Return the export that the server would make of this virtual host."""
        kept = {key: value for key, value in self.document.items() if key not in SECTIONS}
        kept |= {"rabbitmq_definition_format": "single_virtual_host", "original_vhost_name": vhost}
        for host in self.document.get("vhosts", []):
            if host.get("name") == vhost:
                kept |= {key: value for key, value in host.items() if key != "name"}
        for section in _PER_VHOST:
            if section in self.document and not section.endswith("permissions"):
                own = [item for item in self.document[section] if item.get("vhost") == vhost]
                kept[section] = [{k: v for k, v in item.items() if k != "vhost"} for item in own]
        return kept


# What the items of a section are where they do not say.
_DEFAULTS: dict[str, dict[str, Any]] = {
    "queues": {"durable": True, "auto_delete": False, "arguments": {}},
    "exchanges": {"durable": True, "auto_delete": False, "arguments": {}},
    "bindings": {"arguments": {}},
}


def version_of(document: Mapping[str, Any]) -> str | None:
    """Return the version of the server that exported a document, such as ``4.0.5``, if it says so."""
    version = document.get("rabbitmq_version", document.get("rabbit_version"))
    return version if isinstance(version, str) else None


def importable(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return an export in a form that servers of all releases take.

    It may be written by hand and leave out what older ones need, or come from a ``rabbitmqctl`` before 4.1.6,
    which wrote operator policies in a form that no server takes, or from a server on which an exchange was just being
    deleted: it marks that by a parameter that it does not take back (rabbit_exchange.erl).
    """
    kept = dict(document)
    for section, defaults in _DEFAULTS.items():
        if isinstance(kept.get(section), list):
            kept[section] = [
                defaults | item if isinstance(item, dict) and not defaults.keys() <= item.keys() else item
                for item in kept[section]
            ]
    if isinstance(kept.get("users"), list):
        kept["users"] = [_with_tags_as_text(item) for item in kept["users"]]
    if isinstance(kept.get("parameters"), list):
        kept["parameters"] = [_with_object(item) for item in kept["parameters"] if not _marks_a_deletion(item)]
    return kept


def _with_tags_as_text(user: Any) -> Any:
    """Return a user with its tags as servers of 3.8 take them, which refuse a list; later ones take both."""
    tags = user.get("tags") if isinstance(user, dict) else None
    return {**user, "tags": ",".join(map(str, tags))} if isinstance(tags, list) else user


def _marks_a_deletion(parameter: Any) -> bool:
    return isinstance(parameter, dict) and parameter.get("component") == "exchange-delete-in-progress"


def _with_object(parameter: Any) -> Any:
    value = parameter.get("value") if isinstance(parameter, dict) else None
    definition = value.get("definition") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not _is_pairs(definition):
        return parameter
    return {**parameter, "value": {**value, "definition": dict(definition)}}


def _is_pairs(definition: Any) -> TypeGuard[list[list[Any]]]:
    """Return whether a policy's definition is a list of pairs, as servers before 4.1.6 export operator policies."""
    if not isinstance(definition, list):
        return False
    return all(isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str) for pair in definition)


def checking(document: dict[str, Any], source: str, vhost: str | None = None) -> Iterator[None]:
    """Check a document as ``Definitions`` does, and pause after each part. Raises ``DefinitionsError``."""
    for _ in _Reader(document, source, vhost).parts():
        yield


def read_definitions(path: str | os.PathLike[str], vhost: str | None = None) -> Definitions:
    """Read an export from a file. ``vhost`` names the virtual host of an export that does not.

    Raises:
        DefinitionsError: no such file, not an export, or a wrong field.
    """
    source = os.fspath(path)
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise DefinitionsError(source, "", error.strerror or str(error)) from error
    return parse_definitions(data, source, vhost)


def parse_definitions(data: bytes, source: str, vhost: str | None = None) -> Definitions:
    """Parse an export; ``source`` is the name used in messages.

    Raises:
        DefinitionsError: not JSON, not an export, or a wrong field.
    """
    data = data.removeprefix(UTF8_MARK)
    why = _GZIPPED if data.startswith(_GZIP_MAGIC) else why_not_utf8(data)
    if not data.strip():
        why = "it is empty; expected a definitions export"
    if why is not None:
        raise DefinitionsError(source, "", why)
    remarks: tuple[str, ...] = ()
    try:
        document = read_json(data, _DEPTH_MAX)
    except NestedTooDeeplyError as error:
        raise DefinitionsError(source, "", _TOO_DEEP) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        try:
            document, remarks = _lenient(data)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise DefinitionsError(source, where_broken(data, error), f"not JSON: {error}") from error
    if not isinstance(document, dict):
        raise DefinitionsError(source, "", f"not a definitions export: {_mismatch(dict, document)}")
    if SECTIONS.isdisjoint(document):
        near = (
            f". Of {key!r}: did you mean {near[0]!r}?" for key in document if (near := nearest(key, SECTIONS, 0.75))
        )
        raise DefinitionsError(source, "", _NOT_AN_EXPORT + next(near, ""))
    is_strict = not remarks
    if is_strict:
        document, remarks = _with_counting_keys(data, document)
    definitions = Definitions(document, source, vhost)
    definitions.remarks, definitions.is_strict, definitions._text = remarks, is_strict, data
    check_arguments(document, source)
    return definitions


def _lenient(data: bytes) -> tuple[Any, tuple[str, ...]]:
    """Read what JSON does not allow and servers until 3.10 do, and return it with what to say."""
    strict, places = strict_json(data)
    document = read_json(strict, _DEPTH_MAX)
    return document, tuple(
        f"{place_of(data, at)}: the file has {what}: servers take them until 3.10, and refuse the file from 3.11 on"
        for what, at in places.items()
    )


def _with_counting_keys(data: bytes, document: dict[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the document with those of equal keys that count for the server that exported it, and what to say."""
    first = read_first_of_equal_keys(data, document)
    if first == document:
        return document, ()
    own = release(known_release(version_of(document) or "") or DEFAULT)
    told = "a key stands twice in an object: servers take the last one until 3.10, the first from 3.11 on; here the {}"
    if own.json_equal_keys == "first":
        return first, (told.format("first"),)
    return document, (told.format("last"),)


def write_definitions(definitions: Definitions, path: str | os.PathLike[str], vhost: str | None = None) -> None:
    """Write an export to a file, whole or not at all; with ``vhost``, of that virtual host alone."""
    write_whole(path, definitions.to_json(vhost))


class _Reader:
    """Reads the sections of one document, knowing where it is for messages."""

    def __init__(self, document: dict[str, Any], source: str, vhost: str | None) -> None:
        self.document = document
        self.source = source
        self.only_vhost = (_vhost_name(document, source) or vhost or "/") if _is_single(document) else None

    def topologies(self) -> dict[str, Topology]:
        """Return the topology of each virtual host, in the order of the export."""
        found: dict[str, dict[str, list[Any]]] = {vhost: {} for vhost in self._default_types()}
        for vhost, kind, part in self.parts():
            found.setdefault(vhost, {}).setdefault(kind, []).append(part)
        return {
            vhost: Topology.of(**{kind: _counting(kind, parts) for kind, parts in kinds.items()})
            for vhost, kinds in found.items()
        }

    def parts(self) -> Iterator[tuple[str, str, object]]:
        """Yield each part of a topology, with its virtual host and its kind."""
        default_types = self._default_types()
        for where, vhost, item in self._items("exchanges"):
            yield vhost, "exchanges", self._exchange(item, where)
        for where, vhost, item in self._items("queues"):
            yield vhost, "queues", self._queue(item, where, default_types.get(vhost, CLASSIC))
        for place, item in enumerate(self._get(self.document, "", "bindings", list, [])):
            vhost, binding = self._usual_binding(item) or self._binding(item, f"bindings[{place}]")
            yield vhost, "bindings", binding
        for where, vhost, item in self._items("policies"):
            yield vhost, "policies", self._policy(item, where, self._get(item, where, "name", str))
        for where, vhost, item in self._items("parameters", component="operator_policy"):
            name = self._get(item, where, "name", str)
            value = self._get(item, where, "value", dict)
            yield vhost, "operator_policies", self._policy(value, f"{where}.value", name)

    def _default_types(self) -> dict[str, str]:
        """Return each virtual host with the type of a queue declared there without one."""
        if self.only_vhost is not None:
            return {self.only_vhost: self._default_type(self.document, "")}
        hosts = self._section("vhosts")
        return {self._get(host, at, "name", str): self._default_type(host, at) for at, host in hosts}

    def _default_type(self, host: dict[str, Any], where: str) -> str:
        """Return the default queue type in the metadata; servers read it nowhere else, though some export it twice."""
        named = self._get(host, where, "metadata", dict, {}).get("default_queue_type")
        if named in (None, "undefined"):
            return CLASSIC
        type_: str = self._checked(named, _path(where, "metadata.default_queue_type"), str)
        return type_

    def _exchange(self, item: dict[str, Any], where: str) -> Exchange:
        return Exchange(
            name=self._get(item, where, "name", str),
            type=self._get(item, where, "type", str, "direct"),
            durable=self._get(item, where, "durable", bool, True),
            auto_delete=self._get(item, where, "auto_delete", bool, False),
            internal=self._get(item, where, "internal", bool, False),
            arguments=self._get(item, where, "arguments", dict, {}),
        )

    def _queue(self, item: dict[str, Any], where: str, default_type: str) -> Queue:
        arguments = self._get(item, where, "arguments", dict, {})
        self._get(item, where, "type", str, CLASSIC)  # rabbitmqctl writes it; no import reads it
        queue_type = self._get(arguments, f"{where}.arguments", "x-queue-type", str, default_type)
        if queue_type in _MEANS_DEFAULT:
            queue_type = default_type
        return Queue(
            name=self._get(item, where, "name", str),
            type=_TYPES.get(queue_type, queue_type),
            durable=self._get(item, where, "durable", bool, True),
            auto_delete=self._get(item, where, "auto_delete", bool, False),
            exclusive=self._get(item, where, "exclusive", bool, False),
            arguments=arguments,
        )

    def _usual_binding(self, item: Any) -> tuple[str, Binding] | None:
        """Return a binding as servers export them, with its virtual host; an export has thousands."""
        try:
            binding = msgspec.convert(item, Binding)
        except msgspec.ValidationError:
            return None
        vhost = item.get("vhost") if self.only_vhost is None else self.only_vhost
        if binding.arguments or binding.destination_type not in _DESTINATIONS or type(vhost) is not str:
            return None
        return (vhost, binding) if "routing_key" in item and "destination_type" in item else None

    def _binding(self, given: Any, where: str) -> tuple[str, Binding]:
        item = self._checked(given, where, dict)
        vhost = self._vhost(item, where)
        if "destination_type" not in item:
            raise DefinitionsError(self.source, f"{where}.destination_type", "missing; expected queue or exchange")
        kind = self._get(item, where, "destination_type", str)
        if kind not in _DESTINATIONS:
            problem = f"expected queue or exchange, got {kind!r}"
            raise DefinitionsError(self.source, f"{where}.destination_type", problem)
        arguments = self._get(item, where, "arguments", dict, {})
        return vhost, Binding(
            source=self._get(item, where, "source", str),
            destination=self._get(item, where, "destination", str),
            destination_type=kind,
            routing_key=self._get(item, where, "routing_key", str, NO_KEY),
            # An argument without a value, which matches any header of that name, is exported as "undefined".
            arguments={k: None if v == "undefined" else v for k, v in arguments.items()} if arguments else {},
        )

    def _policy(self, item: dict[str, Any], where: str, name: str) -> Policy:
        return Policy(
            name=name,
            pattern=self._get(item, where, "pattern", str),
            definition=self._definition(item, where),
            apply_to=self._get(item, where, "apply-to", str, "all"),
            priority=self._get(item, where, "priority", float, 0),
        )

    def _definition(self, item: dict[str, Any], where: str) -> dict[str, Any]:
        """Return policy keys: an object, or pairs, as servers before 4.1.6 export those of operator policies."""
        definition = item.get("definition")
        if isinstance(definition, list):
            if _is_pairs(definition):
                return dict(definition)
            problem = f"expected an object or a list of [key, value] pairs, got {_shown(definition)}"
            raise DefinitionsError(self.source, f"{where}.definition", problem)
        checked: dict[str, Any] = self._get(item, where, "definition", dict)
        return checked

    def _items(self, section: str, component: str | None = None) -> list[tuple[str, str, dict[str, Any]]]:
        """Return the items of a section, each with its place and its virtual host."""
        found = []
        for where, item in self._section(section):
            if component is None or item.get("component") == component:
                found.append((where, self._vhost(item, where), item))
        return found

    def _vhost(self, item: dict[str, Any], where: str) -> str:
        if self.only_vhost is None and "vhost" not in item:
            raise DefinitionsError(self.source, _path(where, "vhost"), _NO_VHOST)
        vhost: str = self.only_vhost or self._get(item, where, "vhost", str)
        return vhost

    def _section(self, section: str) -> list[tuple[str, dict[str, Any]]]:
        items = self._get(self.document, "", section, list, [])
        places = [f"{section}[{index}]" for index in range(len(items))]
        return [(where, self._checked(item, where, dict)) for where, item in zip(places, items, strict=True)]

    def _get(self, item: dict[str, Any], where: str, name: str, kind: type, default: Any = _REQUIRED) -> Any:
        value = item.get(name, default)
        if type(value) is kind or value is default is not _REQUIRED:  # nearly always
            return value
        if value is _REQUIRED:
            raise DefinitionsError(self.source, _path(where, name), f"missing; expected {_EXPECTED[kind]}")
        return self._checked(value, _path(where, name), kind)

    def _checked(self, value: Any, place: str, kind: type) -> Any:
        if kind is dict and value == []:  # how Erlang writes an empty table
            return {}
        fits = is_number(value) if kind is float else isinstance(value, kind)
        if not fits or (kind is int and isinstance(value, bool)):
            raise DefinitionsError(self.source, place, _mismatch(kind, value))
        return value


def _counting(kind: str, parts: list[Any]) -> list[Any]:
    """Return the parts that count where some have the same name: the first queue and exchange, the last policy.

    Source: live servers of 3.8, 3.10, 4.0 and 4.3.
    """
    if kind == "bindings":
        return parts
    counting: dict[str, Any] = {}
    for part in parts:
        if kind not in FIRST_COUNTS or part.name not in counting:
            counting[part.name] = part
    return list(counting.values())


def check_arguments(document: dict[str, Any], source: str) -> None:
    """Refuse arguments that no queue, exchange or binding can have, by their place; the server only says what.

    Raises:
        DefinitionsError: there is one.
    """
    for section in _WITH_ARGUMENTS:
        for index, item in enumerate(document.get(section, [])):
            pending = [(f"{section}[{index}].arguments", item.get("arguments", {}))]
            while pending:
                where, value = pending.pop(0)
                if isinstance(value, dict):
                    pending += [(_path(where, name), each) for name, each in value.items()]
                elif isinstance(value, list):
                    pending += [(f"{where}[{at}]", each) for at, each in enumerate(value)]
                elif value is None:
                    raise DefinitionsError(source, where, "expected a value, got null; leave out what has none")
                elif isinstance(value, int) and not -(2**63) <= value < 2**63:
                    raise DefinitionsError(source, where, f"expected an integer of 64 bits, got {_shown(value)}")


def _is_single(document: dict[str, Any]) -> bool:
    """Return whether this is the export of one virtual host: nothing in it says to which one it belongs."""
    if "rabbitmq_definition_format" in document:
        return bool(document["rabbitmq_definition_format"] == "single_virtual_host")
    if "original_vhost_name" in document:
        return True
    if "vhosts" in document:
        return False
    return not any("vhost" in item for item in _objects(document, _UNNAMED_IN_SINGLE))


def _vhost_name(document: dict[str, Any], source: str) -> str | None:
    """Return the name of the one virtual host, where the export of one tells it. Raises ``DefinitionsError``."""
    if not _is_single(document):
        return None
    if "original_vhost_name" in document:
        named = document["original_vhost_name"]
        if named is not None and not isinstance(named, str):
            raise DefinitionsError(source, "original_vhost_name", _mismatch(str, named))
        return named
    items = _objects(document, ("policies", "parameters"))
    return next((item["vhost"] for item in items if isinstance(item.get("vhost"), str)), None)


def _objects(document: dict[str, Any], sections: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return the items of these sections that are objects; the sections are not checked yet."""
    found = [document[section] for section in sections if isinstance(document.get(section), list)]
    return [item for items in found for item in items if isinstance(item, dict)]


def _path(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def _mismatch(kind: type, value: Any) -> str:
    return f"expected {_EXPECTED[kind]}, got {_shown(value)}"


def _shown(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 60 else f"{text[:60]}..."
