"""The search: messages by their id or number, and queues by their name. A single hit is shown at once."""

from __future__ import annotations

from itertools import islice

from starlette.responses import Response

from simulator.markup import Html, element
from simulator.message_history import MessageHistory
from simulator.server.management import access
from simulator.server.management.page.frame import code, framed, listed, part
from simulator.server.management.page.links import history_link, message_address, queue_address, queue_link
from simulator.server.management.request import Request

_SHOWN = 100
_HEADS = (("Message", ""), ("What happened last", ""))


def search_page(request: Request, wanted: str) -> Response:
    """Return what was found, or the way to it if it is one thing."""
    messages, queues = _messages(request, wanted), _queues(request, wanted)
    hits = [message_address(each.uid) for each in messages] + [queue_address(*each) for each in queues]
    if len(hits) == 1:
        return Response(status_code=303, headers={"Location": f"./{hits[0]}"})
    title = element("h1", f"“{wanted}”")
    none = "" if hits else element("p", "Neither a queue nor a message whose history is kept is called so.")
    links = (element("li", queue_link(vhost, name), " of ", code(vhost)) for vhost, name in queues)
    found = element("ul", *links) if queues else ""
    table = listed("Messages", _HEADS, [_row(each) for each in messages]) if messages else ""
    most = element("p", f"The newest {_SHOWN} are shown.", class_="muted") if len(messages) == _SHOWN else ""
    return framed(request, wanted, part("found", title, none, found, table, most))


def _row(history: MessageHistory) -> Html:
    return element(
        "tr",
        element("th", history_link(history), scope="row"),
        element("td", history.last(), class_="bad" if history.loss is not None else None),
    )


def _messages(request: Request, wanted: str) -> list[MessageHistory]:
    recorder = request.management.recorder
    if recorder is None:
        return []
    found = recorder.histories.called(wanted)
    return list(islice((each for each in found if access.sees_vhost(request, each.vhost)), _SHOWN))


def _queues(request: Request, wanted: str) -> list[tuple[str, str]]:
    named = (
        (vhost.name, name)
        for vhost in access.visible_vhosts(request)
        for name in vhost.queues
        if wanted.casefold() in name.casefold()
    )
    found = list(islice(named, _SHOWN))
    return [each for each in found if each[1] == wanted] or found
