"""Reads a source of any kind, a file, a folder or a text, and puts together what its readers find."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from simulator.definitions import Definitions, DefinitionsError, Place, parse_definitions
from simulator.definitions.overlay import NAMED_BY, object_key
from simulator.definitions.places import Path as ValuePath
from simulator.definitions.places import json_lines
from simulator.definitions.reading import check_arguments
from simulator.json_reading import UTF8_MARK, read_json, strict_json
from simulator.sources.dapr import DAPR
from simulator.sources.document import Defined, Document, Empty, Exported, Found, Reader, Remark
from simulator.sources.exports import EMBEDDED, EXPORTS, located
from simulator.sources.rascal import RASCAL
from simulator.sources.terraform import SHOW, TERRAFORM
from simulator.sources.topology_operator import TOPOLOGY_OPERATOR
from simulator.sources.yaml_documents import TEMPLATE, is_yaml, yaml_documents

READERS: tuple[Reader, ...] = (TERRAFORM, EXPORTS, EMBEDDED, TOPOLOGY_OPERATOR, RASCAL, DAPR)
"""Each kind of document that describes a topology. The first one that recognises a document reads it."""
_SINGULAR = {"policies": "policy"}
_OF_ONE_NAME = ("queues", "exchanges", "policies")
"""The sections in which a source may have several objects of one name: servers take one, and lint says so."""
SUFFIXES = (".json", ".yaml", ".yml")
"""The endings of the files of a folder that are read."""
RECORDING, DEFINITIONS = "recording.json", "definitions.json"
"""The file that makes a folder a recording (``simulator.record``), and that which has all of its topology."""
_TAKEN = "{} is not defined here: it is taken to be there"
_HINTS = {"Kustomization": "`kustomize build` writes what it makes"}


def definitions_from_file(path: str | os.PathLike[str]) -> Definitions:
    """Read a file, or all files of a folder that end in one of ``SUFFIXES``, sorted by name and laid over each other.

    Of a recording's folder its definitions alone are read.

    Raises:
        DefinitionsError: it cannot be read, or describes no topology; names file, document, line and field.
        ModuleNotFoundError: the extra ``yaml`` is needed and not installed; says what to install.
    """
    if (Path(path) / RECORDING).is_file():
        found = definitions_from_file(Path(path) / DEFINITIONS)
        found.is_recorded = found.is_of_server = True
        return found
    name = os.fspath(path)
    try:
        if not Path(path).is_dir():
            return definitions_from_text(Path(path).read_bytes(), name)
        files = sorted(each for each in Path(path).iterdir() if each.suffix.lower() in SUFFIXES and each.is_file())
        texts = [(each.read_bytes(), os.fspath(each)) for each in files]
        of_terraform = any(each.suffix == ".tf" for each in Path(path).iterdir())
    except OSError as error:
        raise DefinitionsError(name, "", error.strerror or str(error)) from error
    if not files:
        hint = f"; of Terraform's, {SHOW}" if of_terraform else ""
        raise DefinitionsError(name, "", f"no file in it ends in {', '.join(SUFFIXES)}{hint}")
    return _together(name, [_documents(data, file) for data, file in texts])


def definitions_from_text(data: bytes, source: str) -> Definitions:
    """Parse a text; ``source`` is the name used in messages. Raises as ``definitions_from_file``."""
    documents = _documents(data, source)
    if not is_yaml(data) and {_reader(each) for each in documents} <= {None, EXPORTS}:
        return _with_templates_told(parse_definitions(data, source))
    return _together(source, [documents])


def _documents(data: bytes, file: str) -> list[Document]:
    """Return the documents of a text; JSON that is broken is one, which ``parse_definitions`` says more of."""
    if is_yaml(data):
        return [part for each in yaml_documents(data, file) for part in each.items()]
    text = data
    try:
        value = read_json(data.removeprefix(UTF8_MARK))
    except (msgspec.DecodeError, UnicodeDecodeError):
        text, _ = strict_json(data)  # programs that read Rascal's, and servers until 3.10, take comments
        try:
            value = read_json(text)
        except (msgspec.DecodeError, UnicodeDecodeError):
            value = None
    whole = Document(file, None, value, lambda: dict(json_lines(text, depth_max=100)), data)
    return list(whole.items())


def _reader(document: Document) -> Reader | None:
    return next((each for each in READERS if each.recognises(document)), None)


def _together(source: str, files: Sequence[Sequence[Document]]) -> Definitions:
    """Return the definitions of all documents: what comes later replaces its like."""
    own: dict[Reader, list[Document]] = {reader: [] for reader in READERS}
    remarks: list[str] = []
    for documents in files:
        others: list[Document] = []
        for document in documents:
            reader = _reader(document)
            (own[reader] if reader else others).append(document)
        remarks += _left_out(others)
    found = [each for reader, given in own.items() if given for each in _read(reader, given)]
    remarks += [each.text for each in found if isinstance(each, Remark)]
    defined = [each for each in found if isinstance(each, Defined)]
    if not defined and not any(isinstance(each, Empty) for each in found):
        expected = "expected " + ", ".join(each.what for each in READERS)
        raise DefinitionsError(source, "", f"no topology in it: {'; '.join([*remarks, expected])}")
    order = {document.file: at for at, documents in enumerate(files) for document in documents}
    defined.sort(key=lambda each: (order[each.place.file], each.place.document or 0, each.place.line))
    sections, replaced, assumed = _sections(defined)
    definitions = _definitions(
        source, sections, next((each.version for each in found if isinstance(each, Exported)), None)
    )
    definitions.is_imported = all(reader.is_imported for reader, given in own.items() if given)
    taken = [f"virtual host {vhost!r}" for vhost in assumed]
    taken += [] if definitions.is_imported else [f"user {user!r}" for user in definitions.undefined_users]
    definitions.remarks = (*remarks, *replaced, *map(_TAKEN.format, taken))
    definitions.assumptions = tuple(each.text for each in found if isinstance(each, Remark) and each.assumes)
    definitions.assumed_vhosts = assumed
    definitions.is_composed = True
    return _with_templates_told(definitions)


def _with_templates_told(definitions: Definitions) -> Definitions:
    """Return definitions with a remark on the first of those names and values that Helm would fill in."""
    for section in NAMED_BY:
        for at, item in enumerate(definitions.document.get(section, ())):
            if template := TEMPLATE.search(msgspec.json.encode(item).decode()):
                shown = template[0].replace('\\"', '"')
                what = f"{shown} is a template of Helm, taken as it stands; `helm template` writes what it makes"
                place = definitions.place(section, at) or definitions.source
                definitions.remarks = (*definitions.remarks, f"{place}: {what}")
                return definitions
    return definitions


def _read(reader: Reader, documents: Sequence[Document]) -> Iterator[Found]:
    for each in documents:
        each.check_keys()
    return reader.read(documents)


def _left_out(documents: Sequence[Document]) -> Iterator[str]:
    """Say which documents of a file describe no topology."""
    if not documents:
        return
    named = ", ".join(f"{_kind(each)} (line {each.place().line})" for each in documents)
    hints = [hint for kind, hint in _HINTS.items() if any(_kind(each).startswith(kind) for each in documents)]
    yield "; ".join([f"{documents[0].file}: left out, since it describes no topology: {named}", *hints])


def _kind(document: Document) -> str:
    value = document.value if isinstance(document.value, dict) else {}
    metadata = value.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return f"{value.get('kind', 'a document')}{f' {name!r}' if isinstance(name, str) else ''}"


def _sections(defined: Iterable[Defined]) -> tuple[dict[str, list[Defined]], list[str], tuple[str, ...]]:
    """Return the items by section, which ones replace those of an earlier file, and undefined virtual hosts."""
    found: dict[str, dict[bytes, list[Defined]]] = {section: {} for section in NAMED_BY}
    remarks, assumed = [], list[str]()
    for each in defined:
        names = NAMED_BY[each.section]
        key = object_key(each.item, names)
        before = found[each.section].setdefault(key, [])
        if before and each.section in _OF_ONE_NAME and _are_both_there(before[-1], each):
            before.append(each)
            continue
        if before and before[-1].item != each.item:
            name = ", ".join(f"{name} {each.item[name]!r}" for name in names if name in each.item)
            kind = _SINGULAR.get(each.section, each.section.removesuffix("s")).replace("_", " ")
            remarks.append(f"{each.place}: {kind} with {name} replaces the one at {before[-1].place}")
        before[:] = [each]
    sections = {section: [each for same in items.values() for each in same] for section, items in found.items()}
    vhosts = {each.item.get("name") for each in sections["vhosts"]}
    for section, items in sections.items():
        for each in items if "vhost" in NAMED_BY[section] else ():
            vhost = each.item.get("vhost")
            if vhost not in vhosts:
                vhosts.add(vhost)
                sections["vhosts"].append(Defined("vhosts", {"name": vhost}, each.place))
                if vhost != "/":
                    assumed.append(str(vhost))
    return {section: items for section, items in sections.items() if items}, remarks, tuple(assumed)


def _are_both_there(one: Defined, other: Defined) -> bool:
    """Return whether two objects of one name are a conflict: in one file, or as two objects of Kubernetes."""
    apart = None not in (one.kubernetes, other.kubernetes) and one.kubernetes != other.kubernetes
    return apart or one.place.file == other.place.file


def _definitions(source: str, sections: Mapping[str, Sequence[Defined]], version: str | None) -> Definitions:
    """Return the definitions; says of what is wrong in them the place."""
    document: dict[str, Any] = {} if version is None else {"rabbitmq_version": version}
    document |= {section: [each.item for each in items] for section, items in sections.items()}
    places: dict[ValuePath, Place] = {
        (section, at): each.place for section, items in sections.items() for at, each in enumerate(items)
    }
    try:
        definitions = Definitions(document, source, places=places)
        check_arguments(document, source)
    except DefinitionsError as error:
        raise located(error, lambda section, at: places.get((section, at))) from error
    return definitions
