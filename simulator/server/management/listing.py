"""Sorts and filters lists, divides them into pages, and chooses columns, as the query asks.

Source: rabbit_mgmt_util.erl sort_list, filter_and_paginate, extract_columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import regex
from starlette.responses import Response

from simulator.server.management.http_errors import ApiError, HandlerCrash, bad_request, json_response
from simulator.server.management.request import Request

_PAGE_SIZE, _PAGE_SIZE_MAX = 100, 500
_FILTER_MAX = 1024
_SAMPLES_MAX = 500
_MATCH_SECONDS = 1.0
# Objects that are one value to RabbitMQ: columns do not reach into them.
_WHOLE = frozenset(
    {"arguments", "effective_policy_definition", "definition", "client_properties", "value", "metadata", "limits"}
)

Item = Mapping[str, Any]


class Page(msgspec.Struct, frozen=True):
    """The page of a list that the query asks for. ``name``: only items whose name contains it, or matches it."""

    number: int
    size: int
    name: str | None
    by_regex: bool


def listed(items: Sequence[Item], request: Request, sort: tuple[str, ...] = ("vhost", "name")) -> list[Item]:
    """Return the list in the order that the query asks for, by the columns that it names.

    Raises ``HandlerCrash`` for an invalid order.
    """
    columns = _asked_columns(request)
    if columns is not None:  # chosen before the list is sorted: equals are in the order of all that is left of them
        items = sorted((_columns(item, columns) for item in items), key=_whole_order)
    return _sorted(items, request, sort)


def paged(
    items: Sequence[Item], request: Request, sort: tuple[str, ...] = ("vhost", "name"), *, sampled: bool = True
) -> Any:
    """Return the list in its order; if the query asks for a page, an object with the list in ``items``.

    ``sampled``: there are statistics of the items, and the query may ask for samples of them.

    Raises ``ApiError`` 400 for parameters that make no sense, ``HandlerCrash`` for an invalid order.
    """
    if sampled:
        check_samples(request, "invalid_range_parameters")
    page = asked_page(request)
    ordered = _sorted(items, request, sort)
    return ordered if page is None else _paged(ordered, page, request)


def shown(answer: Any, request: Request) -> Any:
    """Return what a handler answers with the columns that the query names, or whole if it names no column.

    Raises ``HandlerCrash`` for a page that makes no sense, whether or not such an answer has pages.
    """
    page = page_or_crash(request)
    columns = _asked_columns(request)
    if columns is None:
        return answer
    if page is None:
        return _columns(answer, columns)
    if isinstance(answer, Mapping) and "items" in answer:
        return {**answer, "items": _columns(answer["items"], columns)}
    return answer


def whole(answer: Any, request: Request, status: int = 200) -> Response:
    """Answer with all columns, whichever the query names. Raises ``HandlerCrash`` if it asks for a page."""
    if page_or_crash(request) is not None:
        raise HandlerCrash
    return json_response(answer, status)


def page_or_crash(request: Request) -> Page | None:
    """Return the page that the query asks for. Raises ``HandlerCrash`` for one that makes no sense."""
    try:
        return asked_page(request)
    except ApiError as error:
        raise HandlerCrash from error


def check_samples(request: Request, error: str = "bad_request") -> None:
    """Refuse impossible ranges of samples, though this server takes no samples. Raises ``ApiError`` 400."""
    for kind in ("lengths", "msg_rates", "data_rates", "node_stats"):
        age, step = (_number(request.query.get(f"{kind}_{part}")) for part in ("age", "incr"))
        if age is None or step is None:
            continue
        if age <= 0 or step <= 0 or age // step > _SAMPLES_MAX:
            raise ApiError(400, error, f"Invalid range parameters: age {age}, incr {step}")


def _asked_columns(request: Request) -> list[list[str]] | None:
    """Return the paths of the columns that the query names; ``None``: it names none."""
    named = request.query.get("columns")
    if named is None:
        return None
    paths = [[part for part in path.split(".") if part] for path in named.split(",") if path]
    if [] in paths:
        raise HandlerCrash
    return paths


def _columns(value: Any, paths: list[list[str]]) -> Any:
    """Return of each object what the paths lead to; RabbitMQ's empty objects are empty lists."""
    if isinstance(value, list):
        return [_columns(item, paths) for item in value]
    if not isinstance(value, Mapping):
        return value
    kept = {}
    for name, part in value.items():
        below = [path[1:] for path in paths if path[0] == name]
        if below:
            kept[name] = part if [] in below or name in _WHOLE else _columns(part, below)
    return kept or []


def asked_page(request: Request) -> Page | None:
    """Return the page that the query asks for. Raises ``ApiError`` 400."""
    try:
        number = _integer(request.query.get("page"))
        size = _integer(request.query.get("page_size"))
    except ValueError as error:
        raise bad_request("Pagination parameters are invalid") from error
    if number is None:
        return None
    if number < 1 or (size is not None and not 0 < size <= _PAGE_SIZE_MAX):
        shown = "undefined" if size is None else size
        raise _invalid(f"Invalid pagination parameters: page number {number}, page size {shown}")
    name, by_regex = request.query.get("name"), request.flag("use_regex")
    if name is not None and by_regex and len(name) > _FILTER_MAX:
        raise _invalid("name filter regex is too long")
    return Page(number, size or _PAGE_SIZE, name, by_regex)


def _invalid(reason: str) -> ApiError:
    return ApiError(400, "invalid_pagination_parameters", reason)


def _integer(text: str | None) -> int | None:
    return None if text is None else int(text)


def _number(text: str | None) -> int | None:
    try:
        return _integer(text)
    except ValueError:
        return None


def _sorted(items: Sequence[Item], request: Request, sort: tuple[str, ...]) -> list[Item]:
    asked = request.query.get("sort")
    keys = (asked, *sort) if asked else sort
    ordered = sorted(items, key=lambda item: [_term_order(_dotted(item, key)) for key in keys])
    known = request.query.get("sort_reverse", "false") in ("true", "false")
    if ordered and not known and request.api.unknown_sort_reverse == "crashes":
        raise HandlerCrash
    return ordered[::-1] if request.flag("sort_reverse") else ordered


def _dotted(item: Any, key: str) -> Any:
    """Return the value at a path such as ``message_stats.publish``; 0 if there is no value."""
    for part in key.split("."):
        if not isinstance(item, Mapping) or part not in item:
            return 0
        item = item[part]
    return item


def _whole_order(item: Any) -> list[tuple[int, Any]]:
    return [_term_order(value) for value in item.values()] if isinstance(item, Mapping) else []


def _term_order(value: Any) -> tuple[int, Any]:
    """Return a sort key in Erlang's order of terms: numbers, atoms, maps, lists, strings."""
    if isinstance(value, bool) or value is None:
        return 1, str(value).lower()
    if isinstance(value, int | float):
        return 0, value
    if isinstance(value, str):
        return 4, value.encode()
    return (2, len(value)) if isinstance(value, Mapping) else (3, repr(value))


def _paged(ordered: list[Item], page: Page, request: Request) -> dict[str, Any]:
    filtered = _filtered(ordered, page, request)
    start = (page.number - 1) * page.size
    if start > len(filtered) and request.api.page_out_of_range == "refused":
        reason = f"Page out of range, page: {page.number} page size: {page.size}, len: {len(filtered)}"
        raise ApiError(400, "page_out_of_range", reason)
    items = filtered[start : start + page.size]
    return {
        "filtered_count": len(filtered),
        "item_count": len(items),
        "items": items,
        "page": page.number,
        "page_count": -(-len(filtered) // page.size),
        "page_size": page.size,
        "total_count": len(ordered),
    }


def _filtered(ordered: list[Item], page: Page, request: Request) -> list[Item]:
    if not page.name:
        return ordered
    if not page.by_regex:
        part = page.name.lower()
        return [item for item in ordered if part in str(item.get("name", "")).lower()]
    try:
        pattern = regex.compile(page.name, regex.IGNORECASE)
        return [item for item in ordered if pattern.search(str(item.get("name", "")), timeout=_MATCH_SECONDS)]
    except (regex.error, TimeoutError) as error:
        if request.api.broken_name_filter == "refused":
            raise bad_request("Pagination parameters are invalid") from error
        return []
