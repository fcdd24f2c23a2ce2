"""Resources of the API (a path, who may use it, what its methods do), and the router that finds them by path."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from simulator.server.management import access
from simulator.server.management.management_releases import Api
from simulator.server.management.request import Request

Handler = Callable[[Request], Any]

# Content types. Only behind JSON_ALONE may no parameters stand, such as charset=utf-8.
JSON = re.compile(r"application/json *(;.*)?", re.IGNORECASE)
JSON_ALONE = re.compile(r"application/json *", re.IGNORECASE)
FORM = re.compile(r"multipart/form-data *(;.*)?", re.IGNORECASE)

_MALFORMED = re.compile("%(?![0-9A-Fa-f]{2})")


class MalformedPathError(Exception):
    """A path that cannot be unquoted (400)."""


def always(request: Request) -> bool:
    """Return true: there is only one such object, and it exists."""
    return True


def vhost_exists(request: Request) -> bool:
    """Return whether the virtual host asked about exists; true when all are asked about."""
    return request.vhost_name is None or request.vhost is not None


def in_every_release(api: Api) -> bool:
    """Return true: every release has the resource."""
    return True


@dataclass(frozen=True)
class Resource:
    """One path of the API.

    Attributes:
        path: below ``/api``, with names such as ``:vhost`` that stand for one segment.
        get: returns the JSON value to answer, or a whole response.
        put, delete: return nothing; the answer is 201 or 204.
        post: returns the body of the answer, or nothing. A handler that takes long is a coroutine function.
        allow: raises ``ApiError`` for users who may not ask; ``None``: everybody may, without authentication.
        exists: returns the object that the path names, or whether there is one; handlers have it as
            ``request.found``. PUT then changes it; GET and DELETE need it.
        offered: returns whether the release has the resource at all.
        takes: the content types that PUT and POST take (415 otherwise), such as ``JSON``; empty: all, and none.
    """

    path: str
    get: Handler | None = None
    put: Handler | None = None
    post: Handler | None = None
    delete: Handler | None = None
    allow: access.Rule | None = access.anyone
    exists: Callable[[Request], object] = always
    offered: Callable[[Api], bool] = in_every_release
    takes: tuple[re.Pattern[str], ...] = ()

    @property
    def methods(self) -> dict[str, Handler]:
        """The handlers by method, in the order of the header Allow."""
        found = {"HEAD": self.get, "GET": self.get, "PUT": self.put, "POST": self.post, "DELETE": self.delete}
        return {method: handler for method, handler in found.items() if handler is not None}

    @property
    def allowed(self) -> str:
        """The value of the header Allow."""
        return ", ".join((*self.methods, "OPTIONS"))

    def takes_type(self, request: Request) -> bool:
        """Return whether the resource takes the content type of the request."""
        given = request.headers.get("content-type", "")
        return not self.takes or any(kind.fullmatch(given) for kind in self.takes)


def segments_of(path: str) -> list[str]:
    """Return the segments of a path as RabbitMQ's HTTP server reads them.

    They are unquoted first: so ``.``, which counts for nothing, and ``..``, which takes back the segment before it,
    mean this also as ``%2E``. One slash at the end counts for nothing.

    Raises:
        MalformedPathError: a percent sign without two hexadecimal digits after it.

    Source: cowboy_router.erl (split_path, remove_dot_segments).
    """
    if _MALFORMED.search(path):
        raise MalformedPathError
    below, found = path.removeprefix("/"), list[str]()
    for segment in map(unquote, below.removesuffix("/").split("/") if below else []):
        if segment == "..":
            del found[-1:]
        elif segment != ".":
            found.append(segment)
    return found


@dataclass
class _Branch:
    """One place in the tree of paths: fixed segments may follow, or one name."""

    fixed: dict[str, _Branch] = field(default_factory=dict)
    named: _Branch | None = None
    resource: Resource | None = None


class Router:
    """Finds the resource of a path. Where two fit, the one wins that has the earlier fixed segment."""

    def __init__(self, resources: Sequence[Resource]) -> None:
        self._root = _Branch()
        for resource in resources:
            self._add(resource)

    def find(self, segments: Sequence[str]) -> tuple[Resource, Mapping[str, str]] | None:
        """Return the resource and the names in a path below ``/api``; ``None`` when no resource has the path.

        A name may be empty, as in ``/exchanges/v//publish``.
        """
        found = _follow(self._root, segments, [])
        if found is None:
            return None
        resource, values = found
        names = [part[1:] for part in resource.path.split("/") if part.startswith(":")]
        return resource, dict(zip(names, values, strict=True))

    def _add(self, resource: Resource) -> None:
        branch = self._root
        for part in resource.path.split("/")[1:]:
            if not part.startswith(":"):
                branch = branch.fixed.setdefault(part, _Branch())
                continue
            branch.named = branch.named or _Branch()
            branch = branch.named
        branch.resource = resource


def _follow(branch: _Branch, segments: Sequence[str], values: list[str]) -> tuple[Resource, list[str]] | None:
    if not segments:
        return (branch.resource, values) if branch.resource is not None else None
    first, rest = segments[0], segments[1:]
    if first in branch.fixed:
        found = _follow(branch.fixed[first], rest, values)
        if found is not None:
            return found
    return _follow(branch.named, rest, [*values, first]) if branch.named is not None else None
