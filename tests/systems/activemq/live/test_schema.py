"""The names and types that an ``activemq.xml`` is checked against are those of the schema in Debian's package."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from simulator.systems.activemq.xml_check import xml_names
from tests.systems.activemq.live.player import Player

JAR = Path("/usr/share/java/activemq-spring.jar")
XS = "{http://www.w3.org/2001/XMLSchema}"
TYPES = {"xs:ID": "text", "xs:string": "text", "xs:double": "decimal", "xs:float": "decimal"}
LOOSER = {"switch": "text", "memory": "text"}
"""Types that the schema takes any text for, and the broker does not."""

pytestmark = pytest.mark.live


def check(player: Player) -> None:
    """Compare with the schema; where a broker plays, its package is there."""
    with zipfile.ZipFile(JAR) as jar:
        schema = ElementTree.fromstring(jar.read("activemq.xsd"))
    elements = {str(element.get("name")): element for element in schema.findall(f"{XS}element")}
    names = xml_names()
    assert set(elements) == names.elements
    for name, form in {**names.read, **names.others}.items():
        types = {each.get("name"): str(each.get("type")) for each in elements[name].iter(f"{XS}attribute")}
        attributes = {each: TYPES.get(kind, kind.removeprefix("xs:")) for each, kind in types.items()}
        assert attributes == {each: LOOSER.get(kind, kind) for each, kind in form.attributes.items()}, name
        properties = {each.get("name") for each in elements[name].iter(f"{XS}element") if each is not elements[name]}
        assert properties - {None} == set(form.properties), name


def test_the_names_are_those_of_the_schema(checked: Callable[[], None]) -> None:
    checked()
