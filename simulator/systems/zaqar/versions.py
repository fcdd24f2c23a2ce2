"""The versions of the API, which ``/`` tells to everybody."""

from __future__ import annotations

from simulator.systems.zaqar.calls import Call
from simulator.systems.zaqar.requests import Answer

_VERSION_2 = {
    "id": "2",
    "status": "CURRENT",
    "updated": "2014-9-24T04:06:47Z",
    "media-types": [{"base": "application/json", "type": "application/vnd.openstack.messaging-v2+json"}],
    "links": [{"href": "/v2/", "rel": "self"}],
}


def versions(call: Call) -> Answer:
    """List the versions: there is one."""
    return Answer(300, {"versions": [_VERSION_2]})
