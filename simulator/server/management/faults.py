"""``/api/faults``, which RabbitMQ does not have: what goes wrong for clients, on request.

``POST /api/faults`` sets one, as ``{"fault": "close_channel", "queue": "orders", "nth": 3}``,
and answers with its number; ``GET`` lists them with how often each struck; ``DELETE`` clears
all, or one by its number.
"""

from __future__ import annotations

from typing import Any

from simulator.server.faults.fault import FaultError, read_fault
from simulator.server.faults.striking import SetFault
from simulator.server.management import access
from simulator.server.management.http_errors import bad_request
from simulator.server.management.request import Request
from simulator.server.management.resources import Resource


def _faults(request: Request) -> list[dict[str, object]]:
    return [each.document() for each in request.node.faults.shown()]


def _set(request: Request) -> dict[str, object]:
    try:
        fault = read_fault(request.json())
    except FaultError as error:
        raise bad_request(str(error)) from error
    return _shown(request, request.node.set_fault(fault))


def _clear_all(request: Request) -> None:
    request.node.clear_faults()


def _found(request: Request) -> SetFault | None:
    number = request.name("id")
    return request.node.faults.known.get(int(number)) if number.isdecimal() and len(number) < 20 else None


def _exists(request: Request) -> bool:
    return _found(request) is not None


def _one(request: Request) -> Any:
    found = _found(request)
    return None if found is None else _shown(request, found)


def _clear(request: Request) -> None:
    found = _found(request)
    if found is not None:
        request.node.clear_faults(found.number)


def _shown(request: Request, fault: SetFault) -> dict[str, object]:
    return request.node.faults.shown_one(fault).document()


RESOURCES = (
    Resource("/faults", _faults, post=_set, delete=_clear_all, allow=access.administrators_to_change),
    Resource("/faults/:id", _one, delete=_clear, exists=_exists, allow=access.administrators_to_change),
)
