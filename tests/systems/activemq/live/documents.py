"""Whole files of which a broker reads some and refuses others, for their namespaces and schemas.

What the real broker answered is in ``recorded_documents.json``.
"""

from __future__ import annotations

_CORE = "http://activemq.apache.org/schema/core"
_BEANS = "http://www.springframework.org/schema/beans"
_OLD = "http://activemq.org/config/1.0"
_OF_BEANS = f"{_BEANS} {_BEANS}/spring-beans.xsd"
_OF_CORE = f"{_CORE} {_CORE}/activemq-core.xsd"


def _located(*places: str) -> str:
    return f'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:schemaLocation="{" ".join(places)}"'


def _beans(broker: str, *places: str) -> str:
    return f'<beans xmlns="{_BEANS}" {_located(*places)}>{broker}</beans>'


_BROKER = f'<broker xmlns="{_CORE}"/>'

DOCUMENTS: dict[str, str] = {
    "schemas named on beans": _beans(_BROKER, _OF_BEANS, _OF_CORE),
    "schema named on the broker": _beans(f'<broker xmlns="{_CORE}" {_located(_OF_CORE)}/>', _OF_BEANS),
    "schema of an older release": _beans(_BROKER, _OF_BEANS, f"{_CORE} {_CORE}/activemq-core-5.4.0.xsd"),
    "broker without beans": f'<broker xmlns="{_CORE}" {_located(_OF_CORE)}/>',
    "broker with a prefix": _beans(f'<amq:broker xmlns:amq="{_CORE}"/>', _OF_BEANS, _OF_CORE),
    "no schema named": f'<beans xmlns="{_BEANS}">{_BROKER}</beans>',
    "no schema of the broker named": _beans(_BROKER, _OF_BEANS),
    "no namespace": "<beans><broker/></beans>",
    "no namespace of the broker": _beans("<broker/>", _OF_BEANS, _OF_CORE),
    "no namespace of a broker without beans": "<broker/>",
    "misspelt namespace of the broker": _beans(f'<broker xmlns="{_CORE[:-1]}"/>', _OF_BEANS, _OF_CORE),
    "old namespace of the broker": _beans(f'<broker xmlns="{_OLD}"/>', _OF_BEANS, f"{_OLD} {_OLD}/activemq-core.xsd"),
    "element of the old namespace": _beans(
        f'<broker xmlns="{_CORE}"><destinationPolicy xmlns="{_OLD}"><policyMap/></destinationPolicy></broker>',
        *(_OF_BEANS, _OF_CORE),
    ),
    "element of a namespace without schema": _beans(
        f'<broker xmlns="{_CORE}"><destinationPolicy xmlns="urn:x"><policyMap/></destinationPolicy></broker>',
        *(_OF_BEANS, _OF_CORE),
    ),
}
