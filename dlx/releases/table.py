"""``Release``: the behaviours of one release of RabbitMQ, put together from the rows of all subjects."""

from __future__ import annotations

import sys
import warnings
from functools import cache, lru_cache

import msgspec

from dlx.plugins import Registry
from dlx.releases.consumers import ConsumerRows
from dlx.releases.declarations import DeclarationRows
from dlx.releases.definitions import DefinitionRows
from dlx.releases.delays import DelayRows
from dlx.releases.delivery_counts import DeliveryCountRows
from dlx.releases.global_counters import GlobalCounterRows
from dlx.releases.limits import LimitRows
from dlx.releases.messages import MessageRows
from dlx.releases.permissions import PermissionRows
from dlx.releases.policies import PolicyContentRows, PolicySelectionRows
from dlx.releases.protocol import ProtocolRows
from dlx.releases.queues import QueueRows
from dlx.releases.routing import HashExchangeRows, RoutingRows
from dlx.releases.rows import Row, rows_of, subjects_of, with_behaviours
from dlx.releases.settings import SettingRows
from dlx.releases.shovels import ShovelRows
from dlx.releases.versions import (
    DEFAULT,
    RELEASES,
    VERSIONS,
    StandInRelease,
    UnknownReleaseError,
    known_release,
    neighbours,
)


@with_behaviours
class Release(
    MessageRows,
    RoutingRows,
    DelayRows,
    SettingRows,
    DeliveryCountRows,
    PolicySelectionRows,
    QueueRows,
    ConsumerRows,
    DeclarationRows,
    PolicyContentRows,
    PermissionRows,
    LimitRows,
    ProtocolRows,
    DefinitionRows,
    GlobalCounterRows,
    ShovelRows,
    HashExchangeRows,
    msgspec.Struct,
    frozen=True,
    kw_only=True,
):
    """The behaviours of one release; ``TABLE`` says what each means and how it is known."""

    name: str
    version: str

    def __repr__(self) -> str:
        in_table = self.name in VERSIONS and _in_table(self.name) == self
        return f"dlx.release({self.name!r})" if in_table else msgspec.Struct.__repr__(self)

    def __hash__(self) -> int:
        """Hash the name alone: rules remember results by their release, so this must be quick."""
        return hash(self.name)


SUBJECTS = subjects_of(Release)
TABLE = rows_of(*SUBJECTS)
MESSAGE_ROWS = rows_of(MessageRows, RoutingRows, SettingRows, DeliveryCountRows, PolicySelectionRows)
"""The rows that decide where a message goes and what its headers say. A replay depends on these."""


def rules_of(name: str, version: str) -> Release:
    """Return the rules that the rows give for a version of RabbitMQ, known or not, under a name of its own."""
    return Release(name=name, version=version, **{row.name: row.value_in(version) for row in TABLE})


@cache  # made when it is asked for: most programs need one or two of them
def _in_table(name: str) -> Release:
    return rules_of(name, VERSIONS[name])


OTHERS = Registry("dlx.releases", "release", {})
"""Releases that other distributions add, by name: entry points, each for a ``Release`` of that name."""


def is_release(name: str) -> bool:
    """Return whether a release has that very name: one of ``RELEASES``, or one that another distribution adds."""
    return name in VERSIONS or name in OTHERS


def all_releases() -> tuple[str, ...]:
    """Return the names of all releases: ``RELEASES``, then those that other distributions add."""
    return (*RELEASES, *(name for name in OTHERS if name not in VERSIONS))


def release(name: str = DEFAULT) -> Release:
    """Return the release of that name, such as ``4.3``, or of its exact version, such as ``4.3.6``.

    Another version of the same release, such as ``4.3.0``, is taken with the warning
    ``StandInRelease``, which names the version whose rules stand in for it and the
    behaviours that are known to have changed between the two. The warning points at the
    caller's line, however many functions of dlx and simulator lie between.

    A release that another distribution adds is found by its name alone.

    Raises ``UnknownReleaseError`` for any other, naming the nearest, and
    ``dlx.plugins.PluginError`` for one whose distribution is broken.
    """
    found, remark = release_and_remark(name)
    if remark is not None:
        warnings.warn(remark, StandInRelease, stacklevel=_callers_level())
    return found


def release_and_remark(name: str) -> tuple[Release, str | None]:
    """Return the release, as ``release`` does, and the text with which it would warn; ``None`` if it would not."""
    if name in VERSIONS:
        return _in_table(name), None
    known = known_release(name)
    if known is not None and name == VERSIONS[known]:
        return _in_table(known), None
    if name in OTHERS:
        return _added(name), None
    if known is None:
        raise UnknownReleaseError(_unknown(name))
    return _in_table(known), stand_in_remark(name)


def _callers_level() -> int:
    """Return the stack level, as the caller counts it, of the nearest function outside of dlx and simulator."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] in ("dlx", "simulator"):
        level, frame = level + 1, frame.f_back
    return level


def _added(name: str) -> Release:
    found = OTHERS.load(name)
    if not isinstance(found, Release) or found.name != name:
        raise OTHERS.refused(name, f"is {found!r:.60}, and not a dlx.Release of that name")
    return found


@lru_cache(maxsize=64)  # a consumer may name the release with every message
def stand_in_remark(version: str) -> str | None:
    """Return the text with which ``release`` warns of a version; ``None`` if it is known exactly, or not at all."""
    known = known_release(version)
    if known is None or version in (known, VERSIONS[known]):
        return None
    exact = VERSIONS[known]
    dated = [(row.name, date) for row in TABLE for date in row.dates_between(version, exact)]
    changes = "; ".join(f"{name} changed in {date}" for name, date in dated)
    return f"the rules of RabbitMQ {exact} stand in for those of {version}" + (f": {changes}" if changes else "")


def _unknown(name: str) -> str:
    near = [each for each in neighbours(name) if each is not None]
    nearest = f"; the nearest {'is' if len(near) == 1 else 'are'} {' and '.join(near)}" if near else ""
    return f"no release {name!r:.60}: known are {', '.join(all_releases())}{nearest}"


def differing_behaviours(one: Release, other: Release, rows: tuple[Row, ...] = TABLE) -> tuple[Row, ...]:
    """Return the rows in which two releases differ, in table order."""
    return tuple(row for row in rows if getattr(one, row.name) != getattr(other, row.name))


def with_behaviour(rules: Release, name: str, other: Release) -> Release:
    """Return the rules with one behaviour, by its name, as another release has it."""
    return msgspec.structs.replace(rules, **{name: getattr(other, name)})
