"""The elements of an XML document, with their places in it.

The document is not trusted: one with a DTD, entities or external references is refused,
and so is a very large or very deep one.
"""

from __future__ import annotations

import xml.sax.handler
from collections.abc import Iterator, Mapping
from xml.sax import SAXException, SAXParseException
from xml.sax.xmlreader import AttributesImpl, Locator

BYTES_MAX = 1_000_000
DEPTH_MAX = 50
SPRING_PROPERTIES = "http://www.springframework.org/schema/p"
_CONFIGURERS = ("PlaceholderConfigurer", "PropertyPlaceholderConfigurer", "PropertySourcesPlaceholderConfigurer")
CORE = "http://activemq.apache.org/schema/core"
"""The namespace of ActiveMQ."""
XSI = "http://www.w3.org/2001/XMLSchema-instance"


class ConfigurationError(ValueError):
    """An ``activemq.xml`` that cannot be read; the text begins with the line."""


class Element:
    """One element.

    Attributes:
        name: without its prefix.
        attributes: those without prefix.
        spring_properties: properties in Spring's short form, ``p:expiration``; attributes of others are left out.
        line, column: where it begins, from 1 on.
        namespace: empty for none.
        schemas: the namespaces for which the element, or one around it, says where their schema is.
        text: what stands in it besides elements.
        children: the elements in it.
        filled_in: whether a bean of the document fills in placeholders; without one ``${x}`` is a text as any other.
    """

    def __init__(
        self,
        name: str,
        attributes: Mapping[str, str],
        line: int,
        column: int,
        namespaces: Mapping[str, str],
        schemas: frozenset[str],
    ) -> None:
        prefix, _, self.name = name.rpartition(":")
        self.line, self.column, self.namespace = line, column, namespaces.get(prefix, "")
        self.attributes = {key: value for key, value in attributes.items() if ":" not in key and key != "xmlns"}
        prefixed = [key.partition(":") for key in attributes if ":" in key]
        self.spring_properties = [key for prefix, _, key in prefixed if namespaces.get(prefix) == SPRING_PROPERTIES]
        located = [key for key in attributes if _is_schema_location(key, namespaces)]
        self.schemas = schemas.union(*(attributes[key].split()[::2] for key in located))
        self.children: list[Element] = []
        self.text = ""
        self.filled_in = False

    @property
    def ours(self) -> bool:
        """Whether it is ActiveMQ's, and not Spring's or another's."""
        return self.namespace in ("", CORE)

    def named(self, *names: str) -> Iterator[Element]:
        """Return the children of ActiveMQ's with these names."""
        return (child for child in self.children if child.name in names and child.ours)

    def last(self, name: str) -> Element | None:
        """Return the last child of that name, which is the one that counts where a property is given twice."""
        return next(reversed(list(self.named(name))), None)

    def everywhere(self, name: str) -> Iterator[Element]:
        """Return every element of that name: this one, and those at any depth below it."""
        return (each for each in self.all() if each.name == name)

    def all(self) -> Iterator[Element]:
        """Yield this element, and those at any depth below it."""
        yield self
        for child in self.children:
            yield from child.all()

    @property
    def fills_in(self) -> bool:
        """Whether it fills in the placeholders of its document."""
        given = self.attributes.get("class", "").rpartition(".")[2]
        return self.name == "property-placeholder" or given in _CONFIGURERS

    def error(self, problem: str) -> ConfigurationError:
        """Return the error for a problem with this element, with its place and name."""
        return ConfigurationError(f"line {self.line}, column {self.column}, <{self.name}>: {problem}")


def _is_schema_location(key: str, namespaces: Mapping[str, str]) -> bool:
    prefix, _, name = key.partition(":")
    return name == "schemaLocation" and namespaces.get(prefix) == XSI


class _Builder(xml.sax.handler.ContentHandler):
    """Builds the elements. Prefixes of names are dropped: ``amq:broker`` is ``broker``."""

    def __init__(self) -> None:
        super().__init__()
        self.root: Element | None = None
        self._open: list[Element] = []
        self._namespaces: list[dict[str, str]] = [{}]
        self._locator: Locator | None = None

    def setDocumentLocator(self, locator: Locator) -> None:
        """Keep the locator, which knows the places."""
        self._locator = locator

    def startElement(self, name: str, attrs: AttributesImpl) -> None:
        """Begin an element."""
        line = 0 if self._locator is None else self._locator.getLineNumber() or 0
        column = 0 if self._locator is None else (self._locator.getColumnNumber() or 0) + 1
        attributes = dict(attrs.items())
        known = dict(self._namespaces[-1])
        for key, value in attributes.items():
            declares, _, prefix = key.partition(":")
            if declares == "xmlns":
                known[prefix] = value
        self._namespaces.append(known)
        schemas = self._open[-1].schemas if self._open else frozenset[str]()
        element = Element(name, attributes, line, column, known, schemas)
        if len(self._open) >= DEPTH_MAX:
            raise element.error(f"expected at most {DEPTH_MAX} elements inside each other")
        if self._open:
            self._open[-1].children.append(element)
        else:
            self.root = element
        self._open.append(element)

    def characters(self, content: str) -> None:
        """Add text to the element that is open."""
        if self._open:
            self._open[-1].text += content

    def endElement(self, name: str) -> None:
        """End an element."""
        self._open.pop()
        self._namespaces.pop()


def parse(text: str | bytes) -> Element:
    """Return the root of a document. Raises ``ConfigurationError`` with the line and what would be right."""
    # Imported here: only brokers that are described by a file need it.
    import defusedxml.sax  # type: ignore[import-untyped]
    from defusedxml.common import DefusedXmlException  # type: ignore[import-untyped]

    content = text.encode() if isinstance(text, str) else text
    if len(content) > BYTES_MAX:
        raise ConfigurationError(f"line 1: expected at most {BYTES_MAX:,} bytes, got {len(content):,}")
    builder = _Builder()
    try:
        defusedxml.sax.parseString(content, builder, forbid_dtd=True)
    except DefusedXmlException as error:
        raise ConfigurationError(
            f"line 1: expected a document without DTD, entities and external references: {type(error).__name__}"
        ) from error
    except SAXParseException as error:
        place = f"line {error.getLineNumber()}, column {(error.getColumnNumber() or 0) + 1}"
        raise ConfigurationError(f"{place}: not well-formed XML: {error.getMessage()}") from error
    except SAXException as error:
        raise ConfigurationError(f"line 1: not XML: {error}") from error
    if builder.root is None:
        raise ConfigurationError("line 1: expected an element")
    filled_in = any(each.fills_in for each in builder.root.all())
    for each in builder.root.all():
        each.filled_in = filled_in
    return builder.root
