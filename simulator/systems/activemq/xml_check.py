"""Refuses an ``activemq.xml`` that the broker refuses: for its names and values, its beans, or its namespaces.

So a typo is not the default. Elements of Spring and of others are not checked, and those
that ``xml_names.toml`` does not describe only by their names.

Spring knows each element by a name of its own, whatever the element is: a broker does not
start with a composite queue and a connector of the same name. It checks a file by the
schemas that ``xsi:schemaLocation`` names, and reads nothing where an element has no
namespace, or one without a schema. A text in a scenario need not be such a file.

Source: the schema of activemq-spring 5.17.2; Spring, XmlBeanDefinitionReader; recorded of a broker of
5.17.2 (``recorded_configurations.json`` and ``recorded_documents.json`` of the tests).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from importlib import resources

import msgspec

from dlx.nearest_names import suggestion
from simulator.systems.activemq.xml_elements import CORE, Element

_BITS = {"short": 16, "integer": 32, "long": 64}
_WHOLE = re.compile(r"[+-]?[0-9]+")
_DECIMAL = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?|-?INF|NaN")
_TEXTS = {"switch": re.compile("true|false", re.I), "memory": re.compile(r"\s*\d+\s*[kmg]?b?\s*", re.I)}
"""What texts must look like; a placeholder that is filled in may replace one."""
_BEAN_NAME = re.compile(r"[^\W\d][\w.\-\u00b7]*")
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}

_EXPECTED = {
    "boolean": "true or false",
    "switch": "true or false",
    "decimal": "a number",
    "memory": "a size as 1048576 or 10mb",
}

Value = str | bool | int | float


# The names that a broker of 5.17 takes: elements, and their attributes by type. They stand in ``xml_names.toml``.


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


# The check


def check(element: Element) -> None:
    """Check an element of the broker's configuration and what is in it.

    Raises ``ConfigurationError`` with the place, what is wrong there, and the nearest name.
    """
    names = xml_names()
    form = names.read.get(element.name) or names.others.get(element.name)
    if form is None:
        return
    if element.name in names.read:
        values(element)
    else:
        _typed(element, form)
    _no_text(element)
    for child in _checked(element):
        if child.name not in form.properties:
            raise child.error(_unexpected(child, element, tuple(form.properties)))
        _check_property(child, form.properties[child.name])


def values(element: Element) -> dict[str, Value]:
    """Return the attributes of an element, each as its type. Raises ``ConfigurationError``."""
    form = xml_names().read[element.name]
    for name, text in element.attributes.items():
        if name in form.attributes and _is_reference(text):
            raise element.error(f"expected a value as {name}, got '{text}'; references to beans are not simulated")
    found = _typed(element, form)
    for name in element.spring_properties:
        raise element.error(f"expected '{name}' without Spring's prefix; that way to give it is not simulated")
    return found


def _typed(element: Element, form: Form) -> dict[str, Value]:
    """Return the attributes of an element, each as its type; a reference to a bean is a text."""
    types = form.attributes
    for name, text in element.attributes.items():
        if name not in types:
            raise element.error(f"there is no attribute '{name}'; {suggestion(name, types)}")
        if name == "id" and not _BEAN_NAME.fullmatch(text.strip()):
            raise element.error(
                f"expected letters, digits, '.', '-' and '_' as id, a letter or '_' first, got '{text}'"
            )
    return {name: _value(element, name, types[name], text) for name, text in element.attributes.items()}


def _is_reference(text: str) -> bool:
    return text.startswith("#") and not text.startswith("##")


def _check_property(holder: Element, content: ElementContent) -> None:
    if content.elements == ():
        return
    if holder.attributes:
        raise holder.error(f"expected no attributes, got '{next(iter(holder.attributes))}'")
    _no_text(holder)
    children = list(_checked(holder))
    for child in children:
        allowed = tuple(sorted(xml_names().elements)) if content.elements is None else content.elements
        if child.name not in allowed:
            raise child.error(_unexpected(child, holder, allowed))
        check(child)
    if content.single and not holder.children and not content.empty:
        raise holder.error(f"expected {_one_of(content.elements)} in it")
    if content.single and len(children) > 1:
        raise children[1].error(f"expected one element in <{holder.name}>, got another")


def check_namespace(element: Element) -> None:
    """Refuse another namespace than ActiveMQ's; a text of a scenario may have none."""
    if not element.ours:
        raise element.error(f"expected the namespace {CORE}, got '{element.namespace}'")


def _one_of(names: tuple[str, ...] | None) -> str:
    if names is None:
        return "an element"
    return "one of " * (len(names) > 1) + ", ".join(f"<{name}>" for name in names)


def _checked(element: Element) -> list[Element]:
    for child in element.children:
        if element.namespace and not child.namespace:
            raise child.error("expected the namespace of ActiveMQ, got none")
        if "activemq" in child.namespace:
            check_namespace(child)
    return [child for child in element.children if child.ours]


def _no_text(element: Element) -> None:
    if element.text.strip():
        raise element.error(f"expected no text, got '{' '.join(element.text.split())[:40]}'")


def _unexpected(child: Element, where: Element, allowed: tuple[str, ...]) -> str:
    if not allowed:
        return f"expected nothing in <{where.name}>"
    return f"there is no <{child.name}> in <{where.name}>; {suggestion(child.name, allowed)}"


def _is_text(element: Element, kind: str, text: str) -> bool:
    filled_in = "${" in text and element.filled_in
    return bool(filled_in or _is_reference(text) or _TEXTS[kind].fullmatch(text))


def _value(element: Element, name: str, kind: str, text: str) -> Value:
    value = text.strip()
    if kind == "text" or (kind in _TEXTS and _is_text(element, kind, text)):
        return text
    if kind == "boolean" and value in _BOOLEANS:
        return _BOOLEANS[value]
    if kind == "decimal" and _DECIMAL.fullmatch(value):
        return float(value.replace("INF", "inf"))
    if kind in _BITS and _WHOLE.fullmatch(value):
        limit = 1 << (_BITS[kind] - 1)
        if -limit <= int(value) < limit:
            return int(value)
        raise element.error(f"expected a whole number from {-limit:,} to {limit - 1:,} as {name}, got '{text}'")
    expected = _EXPECTED.get(kind, "a whole number")
    placeholder = "the placeholder " if "${" in text else ""
    raise element.error(f"expected {expected} as {name}, got {placeholder}'{text}'")


_BETWEEN = re.compile(r"[,; ]+")


def check_bean_names(root: Element) -> None:
    """Raise ``ConfigurationError`` for an element with the name of one before it."""
    known: dict[str, Element] = {}
    for element in root.all():
        for name in dict.fromkeys(_names(element)):
            first = known.setdefault(name, element)
            if first is not element:
                raise element.error(
                    f"expected a name of its own, got '{name}', the name of <{first.name}> in line {first.line}"
                )


def _names(element: Element) -> Iterator[str]:
    if element.ours or element.name == "bean":
        yield from filter(None, (element.attributes.get("id", ""), *_BETWEEN.split(element.attributes.get("name", ""))))


def check_schemas(root: Element) -> None:
    """Raise ``ConfigurationError`` for the first element for which the broker has no schema."""
    for element in root.all():
        if not element.namespace:
            raise element.error(f"expected a namespace{_usual(element)}; no broker starts with the file without one")
        if element.namespace not in element.schemas:
            raise element.error(
                f"expected an xsi:schemaLocation with {element.namespace}{_place(element.namespace)}; "
                "no broker starts with the file without its schema"
            )


def _usual(element: Element) -> str:
    return f', xmlns="{CORE}"' if element.name == "broker" else ""


def _place(namespace: str) -> str:
    return f" and its place, {CORE}/activemq-core.xsd" if namespace == CORE else " and the place of its schema"
