"""The names that a broker of 5.17 takes in its configuration: elements, and their attributes by type.

They stand in ``xml_names.toml``.

Source: the schema of activemq-spring 5.17.2.
"""

from __future__ import annotations

from functools import cache
from importlib import resources

import msgspec


class ElementContent(msgspec.Struct, frozen=True):
    """What may be in an element that sets a property.

    ``elements`` is ``None`` for any element; ``single``: one of them, and none only where it may be ``empty``.
    """

    elements: tuple[str, ...] | None
    single: bool
    empty: bool


class Form(msgspec.Struct, frozen=True):
    """One element: the type of each attribute, and its properties that are elements."""

    attributes: dict[str, str]
    properties: dict[str, ElementContent]


class XmlNames(msgspec.Struct, frozen=True):
    """All names.

    Attributes:
        elements: all elements that there are.
        read: what may be in the elements that the simulator reads.
        others: what may be in others that most configurations have.
    """

    elements: frozenset[str]
    read: dict[str, Form]
    others: dict[str, Form]


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file; it describes its form."""

    elements: str
    forms: dict[str, dict[str, str | dict[str, str]]]
    other_forms: dict[str, dict[str, str | dict[str, str]]]


@cache
def xml_names() -> XmlNames:
    """Return the names, read from the file on first use."""
    table = msgspec.toml.decode(resources.files(__package__).joinpath("xml_names.toml").read_bytes(), type=_Table)
    read, others = ({name: _form(row) for name, row in forms.items()} for forms in (table.forms, table.other_forms))
    return XmlNames(frozenset(table.elements.split()), read, others)


def _form(row: dict[str, str | dict[str, str]]) -> Form:
    attributes = {name: kind for kind, names in row.items() if isinstance(names, str) for name in names.split()}
    properties = row.get("properties", {})
    assert isinstance(properties, dict)
    return Form(attributes, {name: _content(text) for name, text in properties.items()})


def _content(text: str) -> ElementContent:
    number, *elements = text.split()
    return ElementContent(tuple(elements) or None, single=number != "*", empty=number == "?")
