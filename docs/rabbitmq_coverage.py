"""What dlx has of RabbitMQ, for docs/reference/rabbitmq-coverage.md: methods, arguments, policy keys, endpoints.

What RabbitMQ has comes from the tables of dlx and, for endpoints, from what servers say at ``/api/index.html``:

    python docs/rabbitmq_coverage.py 3.8=http://guest:guest@localhost:15672 ...   write it anew into ENDPOINTS_FILE
"""

from __future__ import annotations

import html
import re
import sys
from base64 import b64encode
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import msgspec

from dlx.releases import RELEASES, release
from simulator.files import write_whole
from simulator.server.amqp.methods import INDICES
from simulator.server.management.application import RESOURCES
from simulator.server.management.management_releases import api_of
from simulator.server.management.resources import Router, segments_of

ENDPOINTS_FILE = Path(__file__).with_name("management-endpoints.json")
"""By release the endpoints that a server of it names, such as ``GET /queues/:vhost``."""
DONE, DIFFERENT, MISSING = "✓", "≠", "✗"


class Line(NamedTuple):
    """What is there of one thing. ``marks`` holds one of the three for each release, empty where RabbitMQ lacks it."""

    name: str
    marks: Mapping[str, str]
    how: str


MISSING_METHODS = {
    "connection.secure": "RabbitMQ sends it only for the mechanism RABBIT-CR-DEMO, which is off unless configured; dlx"
    " offers PLAIN and AMQPLAIN",
}
MISSING_METHODS["connection.secure-ok"] = MISSING_METHODS["connection.secure"]

_ONE_NODE = "checked and kept as the server does, without effect: there is one node"
_NO_DISK = "checked and kept as the server does, without effect: nothing is on disk"
# By policy key; an argument of the same name has ``x-`` before it.
WITHOUT_EFFECT = {
    "queue-mode": _NO_DISK,
    "queue-version": _NO_DISK,
    "max-in-memory-length": _NO_DISK,
    "max-in-memory-bytes": _NO_DISK,
    "queue-master-locator": _ONE_NODE,
    "queue-leader-locator": _ONE_NODE,
    "quorum-initial-group-size": _ONE_NODE,
    "initial-cluster-size": _ONE_NODE,
    "target-group-size": _ONE_NODE,
    "consumer-disconnected-timeout": _ONE_NODE,
    "cancel-on-ha-failover": _ONE_NODE,
    "ha-mode": _ONE_NODE,
    "ha-params": _ONE_NODE,
    "ha-sync-mode": _ONE_NODE,
    "ha-sync-batch-size": _ONE_NODE,
    "ha-promote-on-failure": _ONE_NODE,
    "ha-promote-on-shutdown": _ONE_NODE,
    "stream-filter-size-bytes": "checked, without effect: a filter lets nothing through by mistake",
    "credit": "checked, but gives a consumer no credit",
    "stream-filter": "each message is a chunk, so that nothing unwanted comes through",
}
# What a release's row holds: its kind, and whether its members have an ``x-`` that policy keys lack.
ARGUMENTS = {
    "Arguments of classic queues": "classic_queue_arguments",
    "Arguments of quorum queues": "quorum_queue_arguments",
    "Arguments of streams": "stream_queue_arguments",
    "Arguments of consumers of classic queues": "classic_consumer_arguments",
    "Arguments of consumers of quorum queues": "quorum_consumer_arguments",
    "Arguments of consumers of streams": "stream_consumer_arguments",
    "Keys of policies": "policy_keys",
    "Keys of operator policies": "operator_policy_keys",
    "Types of queues": "queue_types",
    "Types of exchanges": "exchange_types",
}
_RATES = "rates are 0.0: a virtual clock makes them meaningless"
_HOST = f"what only a machine has (files, sockets, processes) is 0; {_RATES}"
_STREAM_PLUGIN = "of the plugin rabbitmq_stream_management"
HOW = {
    "/overview": _RATES,
    "/nodes": _HOST,
    "/nodes/:name": _HOST,
    "/nodes/:name/memory": "all sizes are 0",
    "/queues": _RATES,
    "/queues/detailed": _RATES,
    "/queues/:vhost": _RATES,
    "/vhosts": _RATES,
    "/rebalance/queues": "accepted, without effect: there is one node",
}
WHY_MISSING = {
    "/federation-links": "of the plugin rabbitmq_federation_management",
    "/auth/attempts": "attempts are not counted",
    "/stream/": _STREAM_PLUGIN,
    "/users/:user/queues": "not yet",
}


def methods() -> Iterator[tuple[str, str, str]]:
    """Yield each method of AMQP 0-9-1 with its mark and the reason."""
    for name in INDICES:
        yield name, MISSING if name in MISSING_METHODS else DONE, MISSING_METHODS.get(name, "")


def arguments(row: str) -> Iterator[Line]:
    """Yield the members of a row of the release table."""
    known = {name: getattr(release(name), row) for name in RELEASES}
    for member in sorted(frozenset().union(*known.values())):
        how = WITHOUT_EFFECT.get(member.removeprefix("x-"), "")
        mark = DIFFERENT if how else DONE
        yield Line(member, {name: mark if member in held else "" for name, held in known.items()}, how)


def endpoints() -> Iterator[Line]:
    """Yield the endpoints that a server named, in the order of the newest."""
    named = recorded()
    routers = {name: Router([each for each in RESOURCES if each.offered(api_of(release(name)))]) for name in named}
    for endpoint in dict.fromkeys(each for name in reversed(named) for each in named[name]):
        method, _, path = endpoint.partition(" ")
        how = HOW.get(path, "") if method == "GET" or path == "/rebalance/queues" else ""
        marks = {
            name: _mark(routers[name], method, path, how) if endpoint in held else "" for name, held in named.items()
        }
        lacking = next((why for start, why in WHY_MISSING.items() if path.startswith(start)), "")
        yield Line(endpoint, marks, lacking if MISSING in marks.values() else how)


def _mark(router: Router, method: str, path: str, how: str) -> str:
    found = router.find(segments_of(path.replace(":", "")))
    if found is None or method not in found[0].methods:
        return MISSING
    return DIFFERENT if how else DONE


def recorded() -> dict[str, list[str]]:
    """Return the endpoints that servers named, by release."""
    return msgspec.json.decode(ENDPOINTS_FILE.read_bytes(), type=dict[str, list[str]])


def named_in(page: str) -> list[str]:
    """Return the endpoints that a server's page of its API names."""
    found: dict[str, None] = {}
    for row in page.partition("<h2>Reference</h2>")[2].split("<tr>"):
        cells = re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL)
        if len(cells) < 5:
            continue
        taken = [method for method, cell in zip(("GET", "PUT", "DELETE", "POST"), cells, strict=False) if "X" in cell]
        for text in re.split(r"<br ?/?>", cells[4]):
            path = re.sub(r"<i>\s*(.*?)\s*</i>", r":\1", re.sub(r"<em>.*?</em>", "", text), flags=re.DOTALL)
            path = html.unescape(re.sub(r"<.*?>|\s", "", path)).removeprefix("/api").rstrip("/")
            found |= dict.fromkeys(f"{method} {path}" for method in taken if path)
    return list(found)


def main() -> None:
    """Ask servers for their endpoints, and write them."""
    asked = dict(each.split("=", 1) for each in sys.argv[1:])
    told = recorded() | {name: named_in(_page(url)) for name, url in asked.items()}
    ordered = {name: told[name] for name in RELEASES if name in told}
    write_whole(ENDPOINTS_FILE, msgspec.json.format(msgspec.json.encode(ordered), indent=1) + b"\n")


def _page(url: str) -> str:
    parts = urlsplit(url)
    user = b64encode(f"{parts.username}:{parts.password}".encode()).decode()
    where = f"{parts.scheme}://{parts.hostname}:{parts.port}/api/index.html"
    with urlopen(Request(where, headers={"Authorization": f"Basic {user}"}), timeout=30) as answer:
        return str(answer.read().decode())


if __name__ == "__main__":
    main()
