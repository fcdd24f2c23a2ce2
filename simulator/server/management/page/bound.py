"""Says what is bound to an exchange that routed a publish nowhere: by it one sees a key that is misspelt."""

from __future__ import annotations

from itertools import islice

from simulator.events import Happened
from simulator.markup import Html, element, join
from simulator.nearest_names import suggestion
from simulator.server.management import access
from simulator.server.management.page.frame import code, exchange_shown
from simulator.server.management.page.links import queue_link
from simulator.server.management.request import Request

_SHOWN = 20


def what_is_bound(lost: Happened, request: Request) -> Html:
    """Return the bindings of the exchange that an unroutable message was published to, as they are now."""
    host = request.broker.vhosts.get(lost.vhost)
    if host is None or lost.exchange is None or not access.sees_vhost(request, lost.vhost):
        return Html("")
    if not lost.exchange:
        missing = next((key for key in lost.routing_keys if key not in host.queues), None)
        if missing is None:
            return element("p", "There is a queue of that name by now.")
        told = f"The default exchange routes to the queue of the key's name; there is none named {missing!r:.200}"
        near = suggestion(missing, host.queues)
        return element("p", f"{told}; {near}" if near.endswith("?") else f"{told}.")
    bound = host.bindings.get(lost.exchange, {})
    if not bound:
        return element("p", "Nothing is bound to ", exchange_shown(lost.exchange), " now.")
    shown = [
        join((code(each.routing_key), " → ", _destination(lost.vhost, each.destination_type, each.destination)), "")
        for each in islice(bound, _SHOWN)
    ]
    more = f", and {len(bound) - _SHOWN:,} more" if len(bound) > _SHOWN else ""
    return element("p", "What is bound to ", exchange_shown(lost.exchange), " now: ", join(shown, ", "), more, ".")


def _destination(vhost: str, kind: str, name: str) -> Html:
    return queue_link(vhost, name) if kind == "queue" else join(("the exchange ", code(name)), "")
