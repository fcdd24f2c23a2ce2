"""Refuses a file that a broker does not read at all: an element in no namespace, or in one without a schema.

A broker checks the file by the schemas that ``xsi:schemaLocation`` names, and reads nothing
where an element has none. A text in a scenario need not be such a file.

Source: Spring, XmlBeanDefinitionReader; recorded in ``tests/systems/activemq/recorded_documents.json``.
"""

from __future__ import annotations

from simulator.systems.activemq.xml_elements import CORE, Element


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
