"""Settings that somebody wants to try: ``queue:jobs.x-delivery-limit=2``, laid over definitions."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec

from dlx.declarations import ARGUMENTS
from dlx.nearest_names import suggestion
from dlx.policy_validation import DEFINABLE
from dlx.settings import DELIVERY_LIMIT, Settings
from simulator.analysis.snapshot import Snapshot
from simulator.definitions import Definitions

Kind = Literal["queue", "policy", "operator-policy"]
OPERATOR_POLICY = "operator_policy"
_FORM = re.compile(r"(queue|policy|operator-policy):(.*)", re.DOTALL)
EXPECTED = "expected KIND:NAME.KEY=VALUE, such as queue:jobs.x-delivery-limit=2 or policy:burst.max-length=5"
_TYPE = "x-queue-type"


class SettingError(ValueError):
    """A setting that cannot be made; the text says what would be right."""


class GivenSetting(msgspec.Struct, frozen=True):
    """One setting. ``value`` is ``None`` where it is to be removed."""

    kind: Kind
    name: str
    key: str
    value: Any

    def __str__(self) -> str:
        value = "" if self.value is None else msgspec.json.encode(self.value).decode()
        return f"{self.kind}:{self.name}.{self.key}={value}"


def read_setting(text: str, definitions: Definitions) -> GivenSetting:
    """Read a setting. Raises ``SettingError`` for one that names what the definitions, or RabbitMQ, do not have."""
    if not text.isprintable():
        raise SettingError(f"{text!r}: a character that cannot be printed; {EXPECTED}")
    found = _FORM.fullmatch(text)
    if found is None:
        raise SettingError(f"{text!r}: {EXPECTED}")
    kind: Any = found[1]
    known, splits = {name for name, _ in _objects(definitions.document, kind)}, list(_splits(found[2]))
    if not splits:
        raise SettingError(f"{text!r}: {EXPECTED}")
    keys = ARGUMENTS if kind == "queue" else DEFINABLE
    named = [each for each in splits if each[0] in known]
    name, key, value = next((each for each in named if each[1] in keys), (named or splits)[0])
    if name not in known:
        raise SettingError(f"{text!r}: there is no {kind} {name!r}; {suggestion(name, known)}")
    if key not in keys:
        raise SettingError(f"{text!r}: RabbitMQ knows no {_called(kind)} {key!r}; {suggestion(key, keys)}")
    return GivenSetting(kind, name, key, _value(value))


def _splits(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield how the text may be taken apart into name, key and value: any of them may hold dots and equals signs."""
    for equals in (place for place, char in enumerate(text) if char == "="):
        name, dot, key = text[:equals].rpartition(".")
        if dot and name and key:
            yield name, key, text[equals + 1 :]


def _value(text: str) -> Any:
    """Read a value: JSON where it is a number or a boolean, else as it stands; nothing where it is empty."""
    if not text:
        return None
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
    return value if isinstance(value, int | float | str) else text


def with_settings(definitions: Definitions, settings: Sequence[GivenSetting]) -> Definitions:
    """Return the definitions with the settings, in every virtual host that has the object."""
    document = copy.deepcopy(dict(definitions.document))
    for setting in settings:
        for name, table in _objects(document, setting.kind):
            if name == setting.name:
                _put(table, setting)
    for queue in document.get("queues", ()):
        kind = (queue.get("arguments") or {}).get(_TYPE)
        if "type" in queue and kind is not None:
            queue["type"] = kind
    return Definitions(document, definitions.source)


def remarks(given: Iterable[GivenSetting], snapshot: Snapshot) -> Iterator[str]:
    """Yield, in sentences, what RabbitMQ takes and does not go by; ``snapshot`` is of definitions with the settings."""
    for setting in given:
        if setting.kind == "queue" and setting.value is not None:
            about = (settings for _, settings in snapshot.queues() if settings.queue.name == setting.name)
            yield from (f"{setting}: {why}" for each in about if (why := _why_not_heeded(setting, each)))


def _why_not_heeded(setting: GivenSetting, settings: Settings) -> str | None:
    key, name = setting.key.removeprefix("x-"), settings.release.name
    why = next((why for each, why in settings.ignored if each.key == key), None)
    if why is not None:
        return f"RabbitMQ {name} takes it and ignores it: {why}"
    if key != DELIVERY_LIMIT or type(setting.value) is int:
        return None
    limit, found = settings.delivery_limit, settings.values.get(key)
    holds = "there is no limit" if limit is None or found is None else f"the limit is {limit} by {found.origin}"
    return f"not an integer; RabbitMQ {name} takes it anyway, and {holds}"


def _put(table: dict[str, Any], setting: GivenSetting) -> None:
    if setting.value is None:
        table.pop(setting.key, None)
    else:
        table[setting.key] = setting.value


def _objects(document: Mapping[str, Any], kind: Kind) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the objects of a kind: their names, and the table that holds their settings."""
    if kind == "queue":
        for queue in document.get("queues", ()):
            yield str(queue.get("name")), queue.setdefault("arguments", {})
    elif kind == "policy":
        for policy in document.get("policies", ()):
            yield str(policy.get("name")), policy.setdefault("definition", {})
    else:
        for parameter in document.get("parameters", ()):
            value = parameter.get("value")
            if parameter.get("component") == OPERATOR_POLICY and isinstance(value, dict):
                yield str(parameter.get("name")), value.setdefault("definition", {})


def _called(kind: Kind) -> str:
    return "queue argument" if kind == "queue" else "field of a policy"
