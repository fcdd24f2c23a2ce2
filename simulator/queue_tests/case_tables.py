"""Makes many cases of one: a case for each row of a table, with the values of the row in place of ``$name``."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping
from typing import Any

from simulator.nearest_names import suggestion

_NAME = re.compile(r"\$(?:\$|([A-Za-z_]\w*)|\(([A-Za-z_]\w*)\))")


def rows(each: Any) -> list[dict[str, Any]]:
    """Return the rows that ``each`` of a case says: its own, or every combination of the values in its lists.

    Raises ``ValueError`` for anything else.
    """
    if isinstance(each, list) and each and all(isinstance(row, dict) for row in each):
        return each
    if isinstance(each, dict) and each and all(isinstance(values, list) and values for values in each.values()):
        return [dict(zip(each, values, strict=True)) for values in itertools.product(*each.values())]
    raise ValueError("each: expected rows ([{type: classic}, {type: quorum}]) or lists ({type: [classic, quorum]})")


def filled(value: Any, row: Mapping[str, Any]) -> Any:
    """Return the value with those of the row in place of their names, also in keys.

    A text that is a ``$name`` and nothing else becomes the value itself; ``$(name)`` is always text. Raises
    ``ValueError`` for a name that is in no column.
    """
    if isinstance(value, list):
        return [filled(each, row) for each in value]
    if isinstance(value, dict):
        return {_text(key, row): filled(each, row) for key, each in value.items()}
    if not isinstance(value, str):
        return value
    whole = _NAME.fullmatch(value)
    return _of(whole[1], row) if whole and whole[1] else _text(value, row)


def as_text(value: Any) -> str:
    """Return a value as YAML and JSON write it, such as ``null``; a text as it is."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _text(text: str, row: Mapping[str, Any]) -> str:
    return _NAME.sub(lambda found: as_text(_of(found[1] or found[2], row)) if found[0] != "$$" else "$", text)


def _of(name: str, row: Mapping[str, Any]) -> Any:
    if name not in row:
        raise ValueError(f"no ${name} in `each`; {suggestion(name, row)} (write $$ for a dollar)")
    return row[name]
