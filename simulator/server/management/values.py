"""Values in requests that RabbitMQ reads in ways of its own (AMQP tables), and times as it writes them.

Source: rabbit_mgmt_util.erl args; rabbit_mgmt_format.erl now_to_str.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from simulator.json_values import NoFieldValueError, field_value
from simulator.server.management.http_errors import HandlerCrash, bad_request
from simulator.server.management.management_releases import Api


def _amqp_value(value: Any) -> Any:
    """Return the AMQP field value of a JSON value. Raises ``ApiError`` for values that no field may hold."""
    try:
        return field_value(value)
    except NoFieldValueError as error:
        raise bad_request(str(error)) from error


def amqp_table(value: Any) -> dict[str, Any]:
    """Return arguments or headers given as a JSON object; an empty list counts as an empty one."""
    if value == []:
        return {}
    if not isinstance(value, dict):
        raise HandlerCrash
    table: dict[str, Any] = _amqp_value(value)
    return table


def arguments_of(kind: str, document: Mapping[str, Any], api: Api) -> dict[str, Any]:
    """Return the arguments that a document has for such as a ``queue``. Raises ``ApiError``, ``HandlerCrash``."""
    given = document.get("arguments", {})
    return {} if isinstance(given, list) and kind in api.lists_of_arguments_taken else amqp_table(given)


def boolean(document: Mapping[str, Any], name: str) -> bool:
    """Return a true or false of a document, false by default; strings will do. Raises ``ApiError``."""
    value = document.get(name, False)
    if isinstance(value, bool):  # and no number
        return value
    if value in ("true", "false"):
        return bool(value == "true")
    raise bad_request(["not_boolean", value])


def moment(time_us: int, api: Api, *, milliseconds: bool = False) -> str:
    """Return a time (microseconds since 1970) as the release writes it; RFC 3339 always has milliseconds."""
    if api.timestamps == "RFC 3339":
        return datetime.fromtimestamp(time_us / 1_000_000, UTC).isoformat(timespec="milliseconds")
    return f"{local_time(time_us)}:{time_us // 1000 % 1000:03}" if milliseconds else local_time(time_us)


def local_time(time_us: int) -> str:
    """Return a time (microseconds since 1970) in the form of older releases, such as ``2026-11-21 9:59:09``."""
    time = datetime.fromtimestamp(time_us / 1_000_000, UTC)
    return f"{time:%Y-%m-%d} {time.hour}:{time:%M:%S}"
