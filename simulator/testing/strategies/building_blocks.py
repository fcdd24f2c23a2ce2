"""The building blocks of all strategies: names as teams give them, and values that print as what they are."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.errors import InvalidArgument

from dlx.parameter_validation import is_integer
from dlx.releases import Release, UnknownReleaseError
from dlx.releases import release as release_named
from dlx.topology import Topology

NOWHERE = "nowhere"
"""An exchange or queue that does not exist."""

_QUEUES = (
    "orders", "orders.wait", "orders.retry", "orders.dead", "mail", "mail.wait", "mail.dead", "audit",
)  # fmt: skip

Value = TypeVar("Value")


def first_names(count: int) -> tuple[str, ...]:
    """Return that many different queue names."""
    return (*_QUEUES[:count], *(f"audit.{number}" for number in range(2, count - len(_QUEUES) + 2)))


@st.composite
def built(
    draw: st.DrawFn, /, make: Callable[..., Value], *parts: st.SearchStrategy[Any], **named: st.SearchStrategy[Any]
) -> Value:
    """Draw what ``make`` returns for the values drawn, as ``st.builds`` does.

    A failing test prints the ``repr`` of the value. With ``st.builds`` or ``.map`` it may print the call of ``make``,
    which can be pasted only where ``make`` is among the documented imports.
    """
    return make(*map(draw, parts), **{name: draw(part) for name, part in named.items()})


# The arguments of strategies, checked when a strategy is made and not when it is drawn from.


def checked_release(release: Release | str) -> Release:
    """Return the release, which is given as one or by its name."""
    if isinstance(release, Release):
        return release
    if not isinstance(release, str):
        raise InvalidArgument(f"release={release!r}: expected a name such as '4.3', or a dlx.Release")
    try:
        return release_named(release)
    except UnknownReleaseError as error:
        raise InvalidArgument(f"release={release!r}: {error}") from error


def check_queue_counts(queues_min: Any, queues_max: Any) -> None:
    """Raise ``InvalidArgument`` unless both are integers and ``1 <= queues_min <= queues_max``."""
    if not is_integer(queues_min) or queues_min < 1:
        raise InvalidArgument(f"queues_min={queues_min!r}: expected an integer, 1 or more")
    if not is_integer(queues_max) or queues_max < queues_min:
        raise InvalidArgument(f"queues_max={queues_max!r}: expected an integer, at least queues_min={queues_min}")


def check_count(name: str, value: Any, *, most: int | None = None) -> None:
    """Raise ``InvalidArgument`` unless the value is an integer from 0 to ``most``."""
    if not is_integer(value) or value < 0 or (most is not None and value > most):
        wanted = "0 or more" if most is None else f"0 to {most}"
        raise InvalidArgument(f"{name}={value!r}: expected an integer, {wanted}")


def check_flags(**flags: Any) -> None:
    """Raise ``InvalidArgument`` unless each is ``True`` or ``False``."""
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise InvalidArgument(f"{name}={value!r}: expected True or False")


def check_topology(topology: Any, *, queues_min: int = 1) -> None:
    """Raise ``InvalidArgument`` unless it is a topology with at least ``queues_min`` queues."""
    if not isinstance(topology, Topology):
        raise InvalidArgument(
            f"topology={topology!r:.60}: expected a dlx.Topology; definitions have one for each vhost"
        )
    if len(topology.queues) < queues_min:
        raise InvalidArgument("topology: expected at least one queue in it")


def checked_names(name: str, values: Any) -> tuple[str, ...]:
    """Return the names as a tuple. Raise ``InvalidArgument`` unless there is at least one."""
    found = _strings(name, values)
    if not found:
        raise InvalidArgument(f"{name}={values!r}: expected at least one name")
    return found


def checked_choice(name: str, values: Any, known: Collection[str]) -> tuple[str, ...]:
    """Return the names in the order of the known ones. Raise ``InvalidArgument`` for one that is not known."""
    found = _strings(name, values)
    unknown = [value for value in found if value not in known]
    if unknown:
        raise InvalidArgument(f"{name}: no {unknown[0]!r} there; expected some of {', '.join(map(repr, known))}")
    return tuple(value for value in known if value in found)


def _strings(name: str, values: Any) -> tuple[str, ...]:
    if isinstance(values, str) or not isinstance(values, Iterable):
        example = f", such as ({values!r},)" if isinstance(values, str) else ", in a tuple or list"
        raise InvalidArgument(f"{name}={values!r}: expected several strings{example}")
    found = tuple(values)
    if not all(isinstance(value, str) for value in found):
        raise InvalidArgument(f"{name}={values!r}: expected strings only")
    return found
