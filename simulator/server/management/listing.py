"""Sorts and filters lists, divides them into pages, and chooses columns, as the query asks.

Source: rabbit_mgmt_util.erl sort_list, filter_and_paginate, extract_columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import regex

from simulator.server.management.http_errors import ApiError, bad_request
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


def listed(items: Sequence[Item], request: Request, sort: tuple[str, ...] = ("vhost", "name")) -> Any:
    """Return the list as the query asks for it; if it asks for a page, an object with the list in ``items``.

    Raises ``ApiError`` 400 for parameters that make no sense.
    """
    check_samples(request, "invalid_range_parameters")
    page = _page(request)
    ordered = _sorted(items, request, sort)
    if page is None:
        return [chosen(item, request) for item in ordered]
    return _paged(ordered, page, request)


def chosen(item: Item, request: Request) -> Item:
    """Return the item with the columns that the query names, or with all columns if it names no column."""
    columns = request.query.get("columns")
    if columns is None:
        return item
    return _columns(item, [column.split(".") for column in columns.split(",") if column])


def check_samples(request: Request, error: str = "bad_request") -> None:
    """Refuse impossible ranges of samples, though this server takes no samples. Raises ``ApiError`` 400."""
    for kind in ("lengths", "msg_rates", "data_rates", "node_stats"):
        age, step = (_number(request.query.get(f"{kind}_{part}")) for part in ("age", "incr"))
        if age is None or step is None:
            continue
        if age <= 0 or step <= 0 or age // step > _SAMPLES_MAX:
            raise ApiError(400, error, f"Invalid range parameters: age {age}, incr {step}")


def _columns(item: Item, wanted: list[list[str]]) -> Item:
    kept = {}
    for name, value in item.items():
        paths = [path[1:] for path in wanted if path[0] == name]
        if not paths:
            continue
        if [] in paths or name in _WHOLE:
            kept[name] = value
        elif isinstance(value, Mapping):
            kept[name] = _columns(value, paths)
        elif isinstance(value, list):
            kept[name] = [_columns(part, paths) if isinstance(part, Mapping) else part for part in value]
        else:
            kept[name] = value
    return kept


def _page(request: Request) -> Page | None:
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
    return ordered[::-1] if request.flag("sort_reverse") else ordered


def _dotted(item: Any, key: str) -> Any:
    """Return the value at a path such as ``message_stats.publish``; 0 if there is no value."""
    for part in key.split("."):
        if not isinstance(item, Mapping) or part not in item:
            return 0
        item = item[part]
    return item


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
        "items": [chosen(item, request) for item in items],
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
