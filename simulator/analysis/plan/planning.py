"""Plans how a server comes from one topology to another, plays the plan, and says what is lost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from dlx.releases import Release
from dlx.topology import Exchange, Queue
from simulator.analysis.findings import Finding, ObjectName
from simulator.analysis.lint.linting import lint
from simulator.analysis.losses import omits_internal_exchanges
from simulator.analysis.plan.changes import (
    BINDING,
    EXCHANGE,
    QUEUE,
    Change,
    Key,
    Part,
    PolicyEffect,
    changes,
    name_of,
    not_planned,
    objects_of,
    paired,
    policy_effects,
    sides,
    topology_of,
)
from simulator.analysis.plan.play import UNKNOWN_WAITING, Played, broker_of, played
from simulator.analysis.plan.refusals import Answer, answers, to_recreate, unchanged_by_import
from simulator.analysis.plan.steps import MOVING, Known, Order, PlanStep, import_document, without
from simulator.analysis.snapshot import Snapshot
from simulator.definitions import Definitions, DefinitionsError
from simulator.definitions.overlay import as_of_server, laid_over, with_vhosts_of


class Deletion(msgspec.Struct, frozen=True):
    """A queue or an exchange that is deleted.

    Attributes:
        about: it.
        again: whether it is declared again.
        messages: how many messages are in the queue; ``None`` where nobody knows.
        consumers: how many consumers the queue has; ``None`` where nobody knows.
        bindings: what is bound to it, or it to: they go with it.
    """

    about: ObjectName
    again: bool
    messages: int | None
    consumers: int | None
    bindings: tuple[str, ...]


class Plan(msgspec.Struct, frozen=True):
    """The answer.

    Attributes:
        release: the release of the server.
        changes, policy_effects: what changes.
        answers: what the server says to declarations of changed objects as they shall be.
        old_answers: what it says to declarations of them as they were, when all is done.
        not_imported: what an import of the new definitions leaves as it is.
        left_alone: the changed queues and exchanges that stay as they are: servers neither compare what changes, nor
            act by it.
        deletions: what has to be deleted.
        steps: what to do, in this order.
        played: what came of the steps.
        new_errors: the errors that lint finds in the new topology and not in the old.
        assumed, unchecked: what the answer rests on, and what it does not tell, in phrases.
    """

    release: str
    changes: tuple[Change, ...]
    policy_effects: tuple[PolicyEffect, ...]
    answers: tuple[Answer, ...]
    old_answers: tuple[Answer, ...]
    not_imported: tuple[ObjectName, ...]
    left_alone: tuple[Change, ...]
    deletions: tuple[Deletion, ...]
    steps: tuple[PlanStep, ...]
    played: Played
    new_errors: tuple[Finding, ...]
    assumed: tuple[str, ...]
    unchecked: tuple[str, ...]

    @property
    def loses(self) -> bool:
        """Whether messages are lost on the way, or by the new topology and not by the old."""
        return bool(self.played.lost or self.new_errors)


def planned(current: Definitions, new: Definitions, release: Release, known: Known, *, keep: bool = False) -> Plan:
    """Return the plan from one topology to another.

    Args:
        current: what the server has.
        new: what it shall have, in the virtual hosts that this names.
        release: the release of the server.
        known: what is known of it beside.
        keep: whether what ``new`` does not mention stays.

    Raises:
        DefinitionsError: the definitions cannot be used, or the server refuses a step.
    """
    current, new = paired(current, new)
    if keep:
        new = laid_over(as_of_server(new), as_of_server(current))
    new = with_vhosts_of(new, current)
    return _Planning(Snapshot(current, release), Snapshot(new, release), known).plan()


class _Planning:
    """Plans one change."""

    def __init__(self, before: Snapshot, after: Snapshot, known: Known) -> None:
        self._before, self._after = before, after
        self._had, self._has = sides(before, after)
        self._changes = changes(before, after)
        of_plugins = before.of_plugins.keys() | after.of_plugins.keys()
        self._asked = [each for each in self._changes if each.about not in of_plugins]
        """The changes of which a broker knows what it says to a declaration."""
        self._renamed = dict(self._renames(set(known.moves)))
        self._known = msgspec.structs.replace(known, moves={**self._renamed, **self._moves(known.moves)})

    def plan(self) -> Plan:
        there = {(each.about, each.why) for each in self._before.refused}
        for refused in self._after.refused:
            if refused.kept != "whole" and (refused.about, refused.why) not in there:
                raise self._refused(str(refused.about), refused.words or refused.why)
        told = answers(broker_of(self._before), self._asked)
        again = to_recreate(self._after, self._changes, told)
        recreated = {each.about for each in again}
        declared = [
            each for each in self._changes if each.what == "changed" and isinstance(each.after, Queue | Exchange)
        ]
        steps, temporary = self._steps(again)
        found = played(self._before, self._after, steps, temporary, self._known)
        if found.refusal is not None:
            number, words = found.refusal
            raise self._refused(f"step {number}, {steps[number - 1].does}", words)
        silent = unchanged_by_import(broker_of(self._before), self._documents(), self._asked)
        silent += [each.about for each in declared if each not in self._asked]
        return Plan(
            release=self._before.release.name,
            changes=tuple(self._changes),
            policy_effects=tuple(policy_effects(self._before, self._after)),
            answers=tuple(told),
            old_answers=tuple(answers(broker_of(self._after), self._asked, old=True)),
            not_imported=tuple(silent),
            left_alone=tuple(each for each in declared if each.about not in recreated),
            deletions=tuple(self._deletions(again)),
            steps=tuple(without(found.kept, steps)),
            played=found,
            new_errors=tuple(self._new_errors()) if self._changes else (),
            assumed=tuple(self._assumed(found)) if steps else (),
            unchecked=tuple(self._unchecked(found)),
        )

    def _refused(self, what: str, words: str) -> DefinitionsError:
        problem = f"a server of RabbitMQ {self._after.release.name} refuses this: {words}"
        return DefinitionsError(self._after.definitions.source, what, problem)

    def _steps(self, again: Sequence[Change]) -> tuple[list[PlanStep], dict[ObjectName, str]]:
        steps: list[PlanStep] = []
        temporary: dict[ObjectName, str] = {}
        for vhost in self._after.definitions.vhosts:
            topologies = topology_of(self._had, vhost), topology_of(self._has, vhost)
            order = Order(vhost, self._before.release, topologies, self._changes, again, self._known)
            steps += order.steps()
            temporary |= {ObjectName(QUEUE, vhost, name): other for name, other in order.temporary.items()}
        return steps, temporary

    def _documents(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield what an import of the new definitions takes, for each virtual host that is there."""
        for vhost in self._after.definitions.vhosts:
            topology = topology_of(self._has, vhost)
            bindings = [each for bound in topology.bindings.values() for each in bound]
            exchanges = [
                self._after.topologies[vhost].exchanges[part.name]
                for key, part in self._has.items()
                if isinstance(part, Exchange) and key[1] == vhost and key[2] in self._after.topologies[vhost].exchanges
            ]
            if vhost in self._before.broker.vhosts:
                yield vhost, import_document(topology.queues.values(), exchanges, bindings)

    # Queues that get a new name

    def _renames(self, given: Iterable[ObjectName]) -> Iterator[tuple[ObjectName, str]]:
        """Yield the queues that go, each with the only new one that is bound alike, or gets the same dead letters."""
        gone = [each.about for each in self._changes if each.what == "removed" and isinstance(each.before, Queue)]
        left = {old: whose for old in gone if (whose := self._left_of(old)) is not None}
        yield from ((old, whose) for old, whose in left.items() if old not in given)
        gone = [old for old in gone if old not in left]
        new = [each.about for each in self._changes if each.what == "added" and isinstance(each.after, Queue)]
        alike = {old: [each for each in new if self._is_alike(old, each)] for old in gone if old not in given}
        for old, found in alike.items():
            if len(found) == 1 and sum(found == others for others in alike.values()) == 1:
                yield old, found[0].name

    def _left_of(self, old: ObjectName) -> str | None:
        """Return the queue to which an earlier plan could not move all that is in this one."""
        whose = old.name.removesuffix(MOVING)
        ways = topology_of(self._had, old.vhost).bindings.get(f"{old.name}{MOVING}", ())
        to = [whose, *(each.destination for each in ways if each.destination_type == QUEUE)]
        return next((each for each in to if each != old.name and (QUEUE, old.vhost, each) in self._has), None)

    def _is_alike(self, old: ObjectName, new: ObjectName) -> bool:
        if old.vhost != new.vhost:
            return False
        had, has = self._bound(self._had, old), self._bound(self._has, new)
        if had and had == has:
            return True
        before, after = self._before.flows[old.vhost], self._after.flows[old.vhost]
        both = before.topology.queues.keys() & after.topology.queues.keys()
        return any(
            before.possible_targets(each) == {old.name} and after.possible_targets(each) == {new.name}
            for each in both - {old.name, new.name}
        )

    @staticmethod
    def _bound(objects: Mapping[Key, Part], queue: ObjectName) -> set[tuple[str, str, str]]:
        bound = (each for bound in topology_of(objects, queue.vhost).bindings.values() for each in bound)
        return {
            (each.source, each.routing_key, repr(sorted(each.arguments.items())))
            for each in bound
            if each.destination_type == QUEUE and each.destination == queue.name
        }

    def _moves(self, given: Mapping[ObjectName, str]) -> dict[ObjectName, str]:
        """Return the moves that somebody asked for. Raises ``DefinitionsError`` for one that cannot be."""
        for old, new in given.items():
            gone = any(each.about == old and each.what == "removed" for each in self._changes)
            there = (QUEUE, old.vhost, new) in self._has
            if not gone or not there:
                why = f"'{new}' is not one of its queues" if gone else f"{old} is not removed"
                raise DefinitionsError(self._after.definitions.source, "", f"no messages move to '{new}': {why}")
        return dict(given)

    # What it comes to

    def _deletions(self, again: Sequence[Change]) -> Iterator[Deletion]:
        for change in self._changes:
            if (change in again or change.what == "removed") and isinstance(change.before, Queue | Exchange):
                about = change.about
                yield Deletion(
                    about,
                    change in again,
                    self._known.messages.get(about) if about.kind == QUEUE else None,
                    self._known.consumers.get(about) if about.kind == QUEUE else None,
                    tuple(self._bindings_of(about)),
                )

    def _bindings_of(self, about: ObjectName) -> Iterator[str]:
        for bound in topology_of(self._had, about.vhost).bindings.values():
            for each in bound:
                to = (each.destination_type, each.destination) == (about.kind, about.name)
                if to or (about.kind != QUEUE and each.source == about.name):
                    yield name_of((BINDING, about.vhost, each)).name

    def _new_errors(self) -> Iterator[Finding]:
        """Yield the errors of lint that only the new topology has."""
        release = self._before.release
        known = {(each.code, each.about) for each in lint(self._before.definitions, release).findings}
        for finding in lint(self._after.definitions, release).findings:
            if finding.severity == "error" and (finding.code, finding.about) not in known:
                yield finding

    def _assumed(self, found: Played) -> Iterator[str]:
        if self._known.publishers_stopped:
            yield "publishers are stopped during the steps; dead letters still arrive"
        else:
            yield f"publishers keep publishing between the steps; keys that bindings tell apart: {found.published:,}"
        for old, new in self._renamed.items():
            if self._left_of(old) is not None:
                yield f"'{old.name}' is left from an earlier plan: its messages belong in '{new}'"
                continue
            yield f"'{new}' replaces '{old.name}', because the same messages reach both: its messages move there"
        if any(each not in self._known.messages for each in self._queues()):
            yield f"{UNKNOWN_WAITING} messages wait in each queue without a known count"
        yield "nothing expires during the steps, and consumers take nothing; messages may die between any two steps"

    def _queues(self) -> Iterator[ObjectName]:
        for key, part in self._had.items():
            if isinstance(part, Queue) and key[1] in self._after.definitions.vhosts:
                yield ObjectName(QUEUE, key[1], part.name)

    def _unchecked(self, found: Played) -> Iterator[str]:
        yield from not_planned(self._before.definitions, self._after.definitions)
        yield from found.left_out
        yield from dict.fromkeys((*self._before.guesses, *self._after.guesses))
        if plugins := [f"'{each.about.name}'" for each in self._changes if each not in self._asked and each.before]:
            yield f"what the server says to declarations of {', '.join(plugins)}, of a plugin's type"
        unseen = [key for key in self._had.keys() & self._has.keys() if key not in objects_of(self._after)]
        for _, vhost, name in sorted(unseen, key=str):
            if (EXCHANGE, vhost, name) in unseen:
                yield f"whether exchange '{name}' should go: exports leave out internal exchanges, so it stays"
        if self._before.definitions.rabbitmq_version is not None and omits_internal_exchanges(self._before):
            for each in self._changes:
                if each.what == "added" and isinstance(each.after, Exchange) and each.after.internal:
                    yield f"whether {each.about} is there: exports leave out internal ones; if so, it stays as it is"
        left = [each for each in self._before.definitions.vhosts if each not in self._after.definitions.vhosts]
        if left:
            yield f"the virtual hosts that only {self._before.definitions.source} names, which stay: {', '.join(left)}"
        for refused in self._after.refused:
            if refused.kept != "whole":
                yield self._after.sentence(refused)
        yield "what applications declare themselves, and what shovels and federation do"
