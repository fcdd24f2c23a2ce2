"""One side of a question, as brokers take it: definitions under a release, and what is taken to be so of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dlx.message_flow import MessageFlow
from dlx.releases import release
from dlx.settings import DEAD_LETTER_STRATEGY
from simulator.analysis.snapshot import Snapshot
from simulator.definitions import Definitions
from simulator.whatif.differences import Side
from simulator.whatif.playback_broker import PlaybackBroker
from simulator.whatif.settings_given import OPERATOR_POLICY

_OF_CONSUMERS = ("x-single-active-consumer", "x-expires")


@dataclass(frozen=True)
class PreparedSide:
    """A side as brokers take it.

    Attributes:
        side: the definitions and the release.
        snapshot: the definitions as a broker of that release takes them.
        document: what the reruns import.
        notes: what is taken to be so, in sentences.
    """

    side: Side
    snapshot: Snapshot
    document: Mapping[str, Any]
    notes: tuple[str, ...]

    @property
    def only_vhost(self) -> str | None:
        """The virtual host for every row of a log, where the definitions do not name theirs."""
        definitions = self.side.definitions
        return None if definitions.vhost_named else definitions.vhosts[0]

    @property
    def flows(self) -> Mapping[str, MessageFlow]:
        """What the rules say of each virtual host."""
        return self.snapshot.flows

    @cached_property
    def broker(self) -> PlaybackBroker:
        """A broker of this side, on which stories are played."""
        broker = self.snapshot.broker
        # An experiment takes a single behaviour of another release, which that broker does not know.
        same = self.document == self.snapshot.document and broker.release == self.side.release
        return PlaybackBroker(self.document, self.side.release, broker if same else None)

    @cached_property
    def second_broker(self) -> PlaybackBroker:
        """Another one, for a run at the same time."""
        return PlaybackBroker(self.document, self.side.release)


def prepared(side: Side) -> PreparedSide:
    """Return a side as brokers take it.

    Raises:
        DefinitionsError: the broker refuses the whole document.
    """
    snapshot = Snapshot(side.definitions, side.release)
    refused = [
        f"{each.about}, which {snapshot.judge} refuses: {each.why} ({each.consequence})" for each in snapshot.refused
    ]
    notes = (*refused, *snapshot.guesses, *_of_consumers(snapshot))
    return PreparedSide(side, snapshot, assumed_in_use(snapshot.document), notes)


def _of_consumers(snapshot: Snapshot) -> Iterator[str]:
    """Say where it matters whether consumers are there, which a log does not show."""
    for _, settings in snapshot.queues():
        name = settings.queue.name
        if settings.message_ttl_ms == 0 or settings.max_length == 0:
            yield f"whether a consumer waits when a message comes into '{name}', which keeps none: here none does"
        if settings.expires_ms is not None:
            yield f"whether '{name}' is deleted because it is unused for {settings.expires_ms:,} ms: here it stays"


def not_heeded(before: PreparedSide, after: PreparedSide) -> Iterator[str]:
    """Say which settings of ``after`` have no effect in a queue, and why, where that is not so of ``before``."""
    if before.snapshot.release != after.snapshot.release:  # then rows of the release table are the causes
        return
    known, found = ({(why, name) for name, why in _not_heeded(side.snapshot)} for side in (before, after))
    queues: dict[str, list[str]] = {}
    for why, name in sorted(found - known):
        queues.setdefault(why, []).append(name)
    for why, (name, *others) in queues.items():
        yield f"'{name}'{f' (and {len(others):,} more)' if others else ''} {why}"


def _not_heeded(snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    """Yield queues, and what they do not heed."""
    for _, settings in snapshot.queues():
        name = settings.queue.name
        yield from ((name, f"ignores {setting.key}: {why}") for setting, why in settings.ignored)
        if settings.why_at_most_once is not None:
            yield name, settings.why_at_most_once
        for choice in (settings.policy, settings.operator_policy):
            for skipped in choice.kept_away_by(DEAD_LETTER_STRATEGY):
                yield name, f"ignores policy '{skipped.policy.name}': {skipped.why}"


def side_of(definitions: Definitions, rules: str) -> Side:
    """Return definitions under a release. Raises ``UnknownReleaseError``."""
    return Side(definitions, release(rules))


def assumed_in_use(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return an export in which one consumer is enough for a queue, and no queue deletes itself."""
    of_section = {"queues": _queue, "policies": _policy, "parameters": _parameter}
    changed = {name: list(map(of_one, document[name])) for name, of_one in of_section.items() if name in document}
    return {**document, **changed}


def _queue(queue: Mapping[str, Any]) -> dict[str, Any]:
    arguments = queue.get("arguments") or {}
    kept = {key: value for key, value in arguments.items() if key not in _OF_CONSUMERS}
    return {**queue, "arguments": kept, "auto_delete": False}


def _policy(policy: Mapping[str, Any]) -> dict[str, Any]:
    definition = policy.get("definition") or {}
    kept = {key: value for key, value in definition.items() if key != "expires"}
    return {**policy, "definition": kept}


def _parameter(parameter: Mapping[str, Any]) -> Mapping[str, Any]:
    if parameter.get("component") != OPERATOR_POLICY:
        return parameter
    return {**parameter, "value": _policy(parameter["value"])}
