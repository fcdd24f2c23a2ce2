"""Changes of a queue's metadata: Zaqar's part of JSON patch (draft 10), for ``/metadata/NAME`` alone."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from simulator.systems.zaqar.limits import Invalid
from simulator.systems.zaqar.metadata import RESERVED, check

CONTENT_TYPE = "application/openstack-messaging-v2.0-json-patch"
OPERATIONS = ("add", "remove", "replace")


class Conflict(ValueError):
    """A change of an attribute that is not there."""


class PatchOperation(msgspec.Struct, frozen=True):
    """One operation: ``add``, ``remove`` or ``replace``, the attribute, and the new value."""

    operation: str
    name: str
    value: Any = None


def read_changes(document: Sequence[Any]) -> list[PatchOperation]:
    """Read the operations of a patch.

    Raises ``Invalid``, and ``TypeError`` for a path that is not text and for braces in a text that would be refused.
    """
    return [_change(raw) for raw in document]


def patched(metadata: Mapping[str, Any], changes: Sequence[PatchOperation]) -> dict[str, Any]:
    """Return the metadata after all the changes.

    Raises ``Conflict`` where one replaces or removes what is not there, and what ``metadata.check`` raises.
    """
    result = dict(metadata)
    for change in changes:
        known = change.name in result or change.name in RESERVED
        if change.operation != "add" and not known:
            raise Conflict(f"Can't {change.operation} non-existent object {change.name}.")
        if change.operation == "remove":
            result.pop(change.name, None)
        else:
            result[change.name] = change.value
    check(result)
    return result


def _change(raw: Any) -> PatchOperation:
    if not isinstance(raw, dict):
        raise Invalid("Operations must be JSON objects.")
    choice = ", ".join(OPERATIONS)
    operation = raw.get("op")
    if operation is None:
        raise Invalid(f"Unable to find `op` in JSON Schema change. It must be one of the following: {choice}.")
    if operation not in OPERATIONS:
        raise _invalid(f"Invalid operation: `{operation}`. It must be one of the following: {choice}.")
    if "path" not in raw:
        raise Invalid("Unable to find 'path' in JSON Schema change")
    path = _tokens(raw["path"])
    if len(path) != 2:
        raise _invalid(f"Invalid JSON pointer for this resource: '/{'/'.join(path)}, e.g /metadata/key'")
    if operation == "remove":
        return PatchOperation(operation, path[1])
    if "value" not in raw:
        raise Invalid(f'Operation "{operation}" requires a member named "value".')
    if path[0].lower() != "metadata":
        raise Invalid("The root of path must be metadata, e.g /metadata/key.")
    return PatchOperation(operation, path[1], raw["value"])


def _tokens(pointer: Any) -> list[str]:
    if not isinstance(pointer, str):
        raise TypeError(f"the path {pointer!r} is not text")
    if not pointer.startswith("/"):
        raise _invalid(f'Pointer `{pointer}` does not start with "/".')
    if re.search(r"/\s*?/", pointer[1:]):
        raise _invalid(f'Pointer `{pointer}` contains adjacent "/".')
    if len(pointer) > 1 and pointer.endswith("/"):
        raise _invalid(f'Pointer `{pointer}` end with "/".')
    if re.search(r"~[^01]", pointer) or pointer.endswith("~"):
        raise _invalid(f'Pointer `{pointer}` contains "~" not part of a recognized escape sequence.')
    parts = pointer.lstrip("/").split("/")
    return [part.replace("~1", "/").replace("~0", "~").strip() for part in parts]


def _invalid(text: str) -> Invalid:
    """Return a refusal with words of the request in its text, in which Zaqar takes braces for fields to fill in.

    Raises ``TypeError`` where that fails.
    """
    try:
        return Invalid(text.format())
    except (LookupError, ValueError, AttributeError) as error:
        raise TypeError(f"braces in the text {text!r}") from error
