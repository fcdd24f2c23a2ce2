"""The names by which Spring knows the elements of an ``activemq.xml``: each is that of one element, whatever it is.

So a broker does not start with a composite queue and a connector of the same name.

Source: recorded of a broker of 5.17.2 (``recorded_configurations.json`` of the tests).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from simulator.systems.activemq.xml_elements import Element

_BETWEEN = re.compile(r"[,; ]+")


def check_bean_names(root: Element) -> None:
    """Raise ``ConfigurationError`` for an element with the name of one before it."""
    known: dict[str, Element] = {}
    for element in _everything(root):
        for name in dict.fromkeys(_names(element)):
            first = known.setdefault(name, element)
            if first is not element:
                raise element.error(
                    f"expected a name of its own, got '{name}', the name of <{first.name}> in line {first.line}"
                )


def _names(element: Element) -> Iterator[str]:
    if element.ours or element.name == "bean":
        yield from filter(None, (element.attributes.get("id", ""), *_BETWEEN.split(element.attributes.get("name", ""))))


def _everything(element: Element) -> Iterator[Element]:
    yield element
    for child in element.children:
        yield from _everything(child)
