"""Makes a diverging script smaller, as long as it diverges.

Every attempt costs a run on a real server, so it takes out whole operations, then parts of those left, instead of
letting Hypothesis shrink the choices that drew them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec

from tests.differential.operations import Burst, Operation

Script = tuple[Operation, ...]


def smaller(script: Sequence[Operation], diverges: Callable[[Script], bool]) -> Script:
    """The smallest script found that still ``diverges``."""
    found = _without_operations(tuple(script), diverges)
    for index in range(len(found)):
        for candidate in _simpler(found[index]):
            attempt = (*found[:index], candidate, *found[index + 1 :])
            if diverges(attempt):
                return smaller(attempt, diverges)
    return found


def _without_operations(script: Script, diverges: Callable[[Script], bool]) -> Script:
    size = max(1, len(script) // 2)
    while size:
        at = len(script)
        while at > 0:
            attempt = script[: max(0, at - size)] + script[at:]
            if diverges(attempt):
                script = attempt
            at -= size
        size //= 2
    return script


def _simpler(operation: Operation) -> Iterator[Operation]:
    """The operation with a little less in it."""
    if isinstance(operation, Burst):
        each = operation.operations
        yield from (Burst(each[:i] + each[i + 1 :]) for i in range(len(each)) if len(each) > 1)
        return
    for name in ("arguments", "properties", "headers", "definition"):
        table = getattr(operation, name, None) or {}
        for key in table:
            if key != "x-queue-type":
                less = {other: value for other, value in table.items() if other != key}
                yield msgspec.structs.replace(operation, **{name: less})
    if getattr(operation, "headers", None) == {}:
        yield msgspec.structs.replace(operation, headers=None)
