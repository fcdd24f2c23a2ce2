"""Splits a message's properties into the columns of a capture, and gives the message its identity."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Any

import msgspec

from dlx.deaths import X_DEATH, Death
from dlx.delays import X_DELAY
from dlx.message import Message
from simulator.json_values import canonical_json, plain

BROKER_HEADERS = frozenset({
    "CC",
    "x-first-death-reason", "x-first-death-queue", "x-first-death-exchange",
    "x-last-death-reason", "x-last-death-queue", "x-last-death-exchange",
    "x-delivery-count", "x-acquired-count", "x-stream-offset",
    X_DELAY,
})  # fmt: skip
_INT64 = 2**63

Split = tuple[str, str | None, str | None, str, str, str, str | None, list[int | None] | None]
"""message, message_id, expiration, properties, headers, broker_headers, x_death, x_death_times."""


def split_properties(properties: dict[str, Any], payload: bytes) -> Split:
    """Split plain basic properties (``headers`` among them) into columns, in the order of the schema.

    Takes ``properties`` apart: the caller must not use it afterwards.

    Raises:
        ValueError: a property has the wrong type; the text names it.
    """
    headers = properties.pop("headers", None)
    message_id = _text(properties, "message_id")
    expiration = _text(properties, "expiration")
    if headers:
        if not isinstance(headers, dict):
            raise ValueError(f"properties.headers: expected an object, got {headers!r:.60}")
        x_death, times = _split_deaths(headers)
        names = BROKER_HEADERS.intersection(headers)
        broker_headers = canonical_json({name: headers.pop(name) for name in names}) if names else "{}"
        headers_json = canonical_json(headers) if headers else "{}"
    else:
        x_death, times, broker_headers, headers_json = None, None, "{}", "{}"
    properties_json = canonical_json(properties) if properties else "{}"
    message = message_id
    if message is None:
        message = "content:" + _fingerprint(properties, headers, payload)
    return message, message_id, expiration, properties_json, headers_json, broker_headers, x_death, times


def _text(properties: dict[str, Any], name: str) -> str | None:
    value = properties.pop(name, None)
    if value is None or isinstance(value, str):
        return value
    raise ValueError(f"properties.{name}: expected a string, got {value!r:.60}")


def _split_deaths(headers: dict[str, Any]) -> tuple[str | None, list[int | None] | None]:
    """Take ``x-death`` out of the headers, and the times out of its entries."""
    if "x-death" not in headers:
        return None, None
    deaths = headers.pop("x-death")
    if not isinstance(deaths, list):
        return canonical_json(deaths), None
    times = [_take_time(death) for death in deaths]
    return canonical_json(deaths), times


def shown_history(message: Message) -> str:
    """Return the column ``x_death`` of a delivery of the message; empty where it shows no deaths."""
    if message.deaths is not None:
        return _shown_entries(tuple([msgspec.structs.replace(death, time_s=0) for death in message.deaths]))
    deaths = (message.headers or {}).get(X_DEATH)
    return "" if deaths is None else _shown(deaths)


@lru_cache(maxsize=10_000)
def _shown_entries(deaths: tuple[Death, ...]) -> str:
    return _shown([death.as_table() for death in deaths])


def _shown(deaths: Any) -> str:
    x_death, _ = _split_deaths({"x-death": plain(deaths)})
    return x_death or ""


def _take_time(death: Any) -> int | None:
    time = death.get("time") if isinstance(death, dict) else None
    if type(time) is not int or not -_INT64 <= time < _INT64:
        return None
    del death["time"]
    return time


def _fingerprint(properties: dict[str, Any], headers: dict[str, Any] | None, payload: bytes) -> str:
    """Hash the parts that are the same in all copies.

    ``delivery_mode`` may be added on the way; a stream drops ``cluster_id`` and headers of more than one value.
    """
    kept = {name: value for name, value in properties.items() if name not in ("delivery_mode", "cluster_id")}
    scalars = {name: value for name, value in (headers or {}).items() if not isinstance(value, list | dict)}
    described = f"{canonical_json(kept)}\n{canonical_json(scalars)}\n".encode()
    return hashlib.blake2b(described + payload, digest_size=16).hexdigest()
