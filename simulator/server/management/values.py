"""AMQP field values that a request gives as JSON, and points in time, as RabbitMQ writes them.

Source: rabbit_mgmt_util.erl args; rabbit_mgmt_format.erl now_to_str.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from simulator.json_values import NoFieldValueError, field_value
from simulator.server.management.http_errors import Crash, bad_request
from simulator.server.management.management_releases import Api


def _amqp_value(value: Any) -> Any:
    """What RabbitMQ makes of a JSON value. Raises ``ApiError`` for what no field may hold."""
    try:
        return field_value(value)
    except NoFieldValueError as error:
        raise bad_request(str(error)) from error


def amqp_table(value: Any) -> dict[str, Any]:
    """Arguments or headers given as a JSON object; an empty list counts as an empty one."""
    if value == []:
        return {}
    if not isinstance(value, dict):
        raise Crash
    table: dict[str, Any] = _amqp_value(value)
    return table


def moment(time_us: int, api: Api, *, milliseconds: bool = False) -> str:
    """A point in time (microseconds since 1970), as the release writes it, always with ``milliseconds`` or not."""
    time = datetime.fromtimestamp(time_us / 1_000_000, UTC)
    if api.timestamps == "RFC 3339":
        return time.isoformat(timespec="milliseconds")
    shown = f"{time:%Y-%m-%d} {time.hour}:{time:%M:%S}"
    return f"{shown}:{time.microsecond // 1000:03}" if milliseconds else shown
