"""Exports among other files: a file of its own, or the value of a ConfigMap, a Secret or of Helm's values."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from simulator.definitions import Definitions, DefinitionsError, Place, parse_definitions
from simulator.definitions.overlay import NAMED_BY, items_of
from simulator.definitions.places import Path, places_in_json
from simulator.definitions.reading import SECTIONS, check_arguments
from simulator.json_reading import read_json
from simulator.sources.document import Defined, Document, Exported, Found, Reader, Remark, shown_path
from simulator.sources.yaml_documents import is_yaml

_ITEM = re.compile(r"(\w+)\[(\d+)\]\.?(.*)", re.DOTALL)
_LINE = re.compile(r"line (\d+), column \d+")
_TELLING = ("queues", "exchanges", "bindings", "policies", "vhosts")
_TELLING_KEY = re.compile(r'"(?:queues|exchanges|bindings|policies|vhosts|permissions|rabbit(?:mq)?_version)"\s*:')
_OPERATOR_OBJECT = re.compile(r"""^\s*(?:-\s+)?["']?apiVersion["']?:\s*["']?rabbitmq\.com/""", re.MULTILINE)
_BASE64 = {"Secret": "data", "ConfigMap": "binaryData"}


def located(error: DefinitionsError, place_of: Callable[[str, int], Place | None]) -> DefinitionsError:
    """Return an error about an item of a section with the place of the item; another one as it is."""
    item = _ITEM.fullmatch(error.where)
    place = place_of(item[1], int(item[2])) if item else None
    if item is None or place is None:
        return error
    return DefinitionsError(str(place), item[3], error.problem)


def _is_export(value: Any) -> bool:
    """Return whether a value is an export: it has lists of objects under names that exports have."""
    return isinstance(value, dict) and any(
        isinstance(value.get(section), list) and all(isinstance(item, dict) for item in value[section])
        for section in _TELLING
    )


def _recognises_export(document: Document) -> bool:
    """Take broken JSON, too: servers until 3.10 read some of it, and of the rest ``parse_definitions`` says more."""
    return _is_export(document.value) or (document.value is None and not is_yaml(document.data))


def _read_exports(documents: Sequence[Document]) -> Iterator[Found]:
    for document in documents:
        if is_yaml(document.data):
            yield from _found(_of_yaml(document), lambda place: place)
        else:
            yield from _found(parse_definitions(document.data, document.file), lambda place: place)


def _of_yaml(document: Document) -> Definitions:
    value, file = document.value, document.file
    places: dict[Path, Place] = {
        (section, at): document.place(section, at)
        for section in SECTIONS
        for at in range(len(value.get(section) or ()))
    }
    try:
        check_arguments(value, file)
        return Definitions(value, file, places=places)
    except DefinitionsError as error:
        raise located(error, document.place) from error


def _found(definitions: Definitions, place_in_file: Callable[[Place], Place]) -> Iterator[Found]:
    """Yield what an export defines; ``place_in_file`` makes places in its text places in its file."""
    top = place_in_file(Place(definitions.source, 1))
    if not definitions.vhost_named:
        problem = 'missing; expected the virtual host that the export is of, such as "/"'
        raise DefinitionsError(str(top), "original_vhost_name", problem)
    if definitions.rabbitmq_version is not None:
        yield Exported(definitions.rabbitmq_version)
    yield from (Remark(f"{top}: {remark}") for remark in definitions.remarks)
    for section in NAMED_BY:
        for item, place in items_of(definitions, section):
            yield Defined(section, item, top if place is None else place_in_file(place))


def _recognises_embedded(document: Document) -> bool:
    return next(_embedded(document), None) is not None or bool(_operator_objects(document))


def _read_embedded(documents: Sequence[Document]) -> Iterator[Found]:
    for document in documents:
        for path, text in _embedded(document):
            yield from _of_value(document, path, text)
        if inside := _operator_objects(document):
            what = f"left out: objects of the topology operator in {shown_path(inside[0][:1])}, since Helm makes them"
            yield Remark(f"{document.place(*inside[0])}: {what}; `helm template` writes what it makes")


def _of_value(document: Document, path: Path, text: str) -> Iterator[Found]:
    """Yield what the export in a string defines. Its lines are those of the file in a literal block only."""
    first = document.block(*path)

    def in_file(place: Place) -> Place:
        if first is None:
            return document.place(*path)
        return Place(first.file, first.line + place.line - 1, first.document)

    data = text.encode()
    try:
        yield from _found(parse_definitions(data, document.file), in_file)
    except DefinitionsError as error:
        line = _LINE.fullmatch(error.where)
        if line:
            place = in_file(Place(document.file, int(line[1])))
            raise DefinitionsError(str(place), "", error.problem) from error
        if _ITEM.fullmatch(error.where) is None:
            raise
        places = places_in_json(data, document.file)
        raise located(error, lambda section, at: in_file(places[section, at])) from error


def _embedded(document: Document) -> Iterator[tuple[Path, str]]:
    """Yield each string of a document that is an export, with the path to it."""
    base64_field = _BASE64.get(str(document.value.get("kind"))) if isinstance(document.value, dict) else None
    for path, value in document.values():
        if isinstance(value, str):
            text = _decoded(value) if path and path[0] == base64_field else value
            if _is_embedded_export(text):
                yield path, text


def _operator_objects(document: Document) -> list[Path]:
    """Return the paths to objects of the topology operator in values of Helm, such as those of ``extraDeploy``."""
    if not isinstance(document.value, dict) or "kind" in document.value:
        return []
    return [
        path
        for path, value in document.values()
        if (isinstance(value, str) and _OPERATOR_OBJECT.search(value))
        or (isinstance(value, dict) and str(value.get("apiVersion")).startswith("rabbitmq.com/"))
    ]


def _decoded(value: str) -> str:
    try:
        return base64.b64decode("".join(value.split()), validate=True).decode("utf-8-sig")
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return ""


def _is_embedded_export(text: str) -> bool:
    """Return whether a text is an export, or broken JSON that was meant to be one: two of its names are in it."""
    if not text.lstrip().startswith("{") or not _TELLING_KEY.search(text):
        return False
    try:
        return _is_export(read_json(text.encode()))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return len(set(_TELLING_KEY.findall(text))) > 1


EXPORTS = Reader("a definitions export", _recognises_export, _read_exports, is_imported=True)
EMBEDDED = Reader(
    "one in a ConfigMap, Secret or values of Helm", _recognises_embedded, _read_embedded, is_imported=True
)
