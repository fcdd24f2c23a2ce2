"""Answers what an upgrade changes for a topology: asks the question of every row that differs."""

from __future__ import annotations

from typing import Any

import msgspec

from dlx.releases import Release, differing_behaviours
from simulator.definitions import Definitions
from simulator.questions.findings import SEVERITIES, ObjectName
from simulator.questions.upgrade import histories, objects, paths, queues, settings
from simulator.questions.upgrade.beside_topologies import BESIDE
from simulator.questions.upgrade.change import QUESTIONS, FoundChange
from simulator.questions.upgrade.upgrade import Upgrade

GROUPS = (settings, paths, histories, queues, objects)
"""The modules that hold the questions."""
ASSUMED = (
    "publishers set no expiration, CC, BCC or x-death of which the definitions know; where they do, a change says so",
    "the server has no plugins beside those of a plain installation, and its configuration stays as it is",
    "queues, bindings and policies stay as they are during the upgrade, and no feature flag is left disabled",
    "no traffic passes releases in between, through which an upgrade may have to go",
)
UNCHECKED = (
    "what clients do: their libraries, arguments of consumers, prefetch, message sizes",
    "clusters, performance, disk and memory, and what release notes list besides dead-lettering",
)


class UpgradeReport(msgspec.Struct, frozen=True):
    """What an upgrade changes.

    Attributes:
        before, after: the releases by name.
        changes: errors first, then warnings and notes; by object.
        assumed: what has to be so for the answer to hold.
        unchecked: what was not looked at.
    """

    before: str
    after: str
    changes: tuple[FoundChange, ...]
    assumed: tuple[str, ...]
    unchecked: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """Return the report as plain JSON values."""
        return {
            "from": self.before,
            "to": self.after,
            "changes": [each.as_json() for each in self.changes],
            "assumed": self.assumed,
            "unchecked": self.unchecked,
        }


def upgraded(definitions: Definitions, before: Release, after: Release) -> UpgradeReport:
    """Return what changes for the topology of these definitions."""
    upgrade = Upgrade(definitions, before, after)
    rows = differing_behaviours(before, after)
    found = [
        FoundChange(
            behaviour=row.name,
            change=change,
            evidence=f"since {', '.join(row.dates_between(before.version, after.version))}: {row.evidence}",
        )
        for row in rows
        if row.name in QUESTIONS
        for change in QUESTIONS[row.name](upgrade, row)
    ]
    beside = [row.name for row in rows if row.name in BESIDE]
    unchecked = [*_left_out(upgrade), *UNCHECKED]
    if beside:
        table = f"`dlx releases {before.name} {after.name}` has them"
        unchecked.append(f"{len(beside)} behaviours that differ and do not show in a topology; {table}")
    return UpgradeReport(before.name, after.name, tuple(sorted(found, key=_order)), ASSUMED, tuple(unchecked))


def _order(found: FoundChange) -> tuple[int, Any, str]:
    return SEVERITIES.index(found.change.severity), found.change.about, found.behaviour


def _left_out(upgrade: Upgrade) -> list[str]:
    publishes = upgrade.entries.left_out
    cut = [
        f"ways of messages in virtual host '{vhost}' beyond the {paths.PATHS_MAX:,} shortest"
        for vhost, walk in upgrade.walks.items()
        if not walk.complete or len(walk.places) > paths.PATHS_MAX
    ]
    return [*upgrade.left_out, *_tied(upgrade), *publishes, *cut]


def _tied(upgrade: Upgrade) -> list[str]:
    """Return the policies of equal priority of which RabbitMQ may take any, in sentences."""
    found: dict[tuple[str, ...], dict[ObjectName, None]] = {}
    for queue, *both in upgrade.queues():
        for each in both:
            for choice, kind in ((each.policy, "policies"), (each.operator_policy, "operator policies")):
                if choice.policy is not None and choice.disagreeing:
                    names = (choice.policy.name, *(other.name for other in choice.disagreeing))
                    found.setdefault((kind, *names), {})[queue.about] = None
    return [
        f"which of the {kind} {' and '.join(map(repr, names))} of equal priority applies to {_some(list(queues))}: "
        f"RabbitMQ does not define it, and it may be another one after the upgrade; here it is {names[0]!r}"
        for (kind, *names), queues in found.items()
    ]


def _some(about: list[ObjectName]) -> str:
    return f"{about[0]} and {len(about) - 1} more" if len(about) > 1 else str(about[0])
