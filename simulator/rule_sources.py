"""Says who decides and how a rule is known: settings with their origins, RabbitMQ's files, the evidence of rows."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from importlib import import_module

from dlx.releases import TABLE
from dlx.settings import Setting

_SOURCE = re.compile(r"^Source: (.*?)\.?\s*(?:\n\n|\Z)", re.DOTALL | re.MULTILINE)


def sources(modules: Iterable[str], rows: Iterable[str] = ()) -> str:
    """Return the sources of rules, of modules such as ``dlx.cycles`` and of release rows by their names."""
    wanted = set(rows)
    named = [f"release row {row.name}: {row.evidence}" for row in TABLE if row.name in wanted]
    return "; ".join(filter(None, [*(_source(module) for module in modules), *named]))


@cache
def _source(module: str) -> str:
    found = _SOURCE.search(import_module(module).__doc__ or "")
    return " ".join(found[1].split()) if found else ""


def with_origin(setting: Setting) -> str:
    """Return a setting with its value, who set it, and what it hides: ``message-ttl 500 by argument``."""
    value = "''" if setting.value == "" else setting.value
    hidden = ", ".join(f"{value} of the {origin}" for value, origin in setting.hidden)
    return f"{setting.key} {value} by {setting.origin}" + (f", not {hidden}" if hidden else "")
