"""The names that a rules table may use for numbers: MQMT_*, MQPER_*, MQAT_*, MQFB_* and MQRC_*, of ``constants.toml``.

Source: IBM MQ's documentation of the MQI's constants and of reason codes.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources

import msgspec

# Among several names of one number these are printed; of others, the first in the table.
_PREFERRED = ("MQMT_REQUEST", "MQAT_ZOS", "MQAT_UNIX", "MQPER_PERSISTENCE_AS_Q_DEF")


@cache
def known_names() -> Mapping[str, Mapping[str, int]]:
    """Return the numbers by name, of each family (``MQRC_``)."""
    table = resources.files(__package__).joinpath("constants.toml").read_bytes()
    return msgspec.toml.decode(table, type=dict[str, dict[str, int]])


def number_of(name: str, families: tuple[str, ...]) -> int | None:
    """Return the number with that name in one of the families (``MQRC_``); ``None`` if no family has the name."""
    return next((known_names()[family][name] for family in families if name in known_names()[family]), None)


def name_of(number: int, families: tuple[str, ...]) -> str | None:
    """Return the name of a number in the first family that has one; ``None`` if no family has one."""
    return next((_names(family)[number] for family in families if number in _names(family)), None)


@cache
def _names(family: str) -> dict[int, str]:
    numbers = known_names()[family]
    first = {number: name for name, number in reversed([*numbers.items()])}
    return first | {numbers[name]: name for name in _PREFERRED if name in numbers}
