"""Lints definitions: asks every rule, and says what was assumed and what was not checked."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import Any

import msgspec

from dlx.releases import Release
from simulator.analysis.clients import NOTHING_STATED, Clients
from simulator.analysis.findings import BASES, SEVERITIES, Finding, ObjectName, actions_in
from simulator.analysis.lint.grouping import Names
from simulator.analysis.lint.rule import RULES, QueueAt, Subject
from simulator.analysis.lint.rules import losses as losing
from simulator.analysis.lint.rules import plugins, policies, retries, settings
from simulator.analysis.losses import Loss, Losses
from simulator.analysis.snapshot import Snapshot, object_places
from simulator.definitions import Definitions
from simulator.scenario import steps

GROUPS = (losing, retries, settings, policies, plugins)
"""The modules that hold the rules."""
MESSAGES_MAX = 100
BYTES_MAX = 1_000_000
"""A loss is an error where no more messages, and no more bytes, have to wait for it; otherwise it is a warning."""
ALWAYS_ASSUMED = (
    "publishers set no expiration, CC, BCC or x-death, and no headers but those that exchanges look at",
    "policies, bindings and queues stay as they are",
    "the server stays up: a restart loses transient messages, and queues that are not durable",
    "no consumer still needs what a stream drops by its retention",
)


class LintReport(msgspec.Struct, frozen=True):
    """What lint found in definitions under one release.

    Attributes:
        release: its name.
        findings: errors first, then warnings and notes, as ``in_order`` has them.
        assumed: what has to be so for the answer to hold.
        unchecked: what was not looked at.
        queues: how many queues were.
        losses: every way in which messages are lost, or a copy of them, or may be; what is held is among them.
    """

    release: str
    findings: tuple[Finding, ...]
    assumed: tuple[str, ...]
    unchecked: tuple[str, ...]
    queues: int
    losses: tuple[Loss, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return the report as plain JSON values, without its losses."""
        return {
            "release": self.release,
            "findings": [each.as_json() for each in self.findings],
            "assumed": self.assumed,
            "unchecked": self.unchecked,
            "queues": self.queues,
        }


def lint(
    definitions: Definitions,
    release: Release,
    clients: Clients = NOTHING_STATED,
    broken: Collection[tuple[str, str, str]] = (),
    named: Collection[QueueAt] = (),
) -> LintReport:
    """Return what the rules find. Raises ``DefinitionsError`` where the broker refuses the whole document.

    ``broken``: virtual hosts, queues and reasons of deaths that consumers are known to bring about. ``named``: queues
    to which clients are known to publish by their names.
    """
    subject = Subject(Snapshot(definitions, release), clients=clients, broken=broken, named=named)
    return LintReport(
        release.name,
        tuple(_findings(subject)),
        (
            *subject.snapshot.not_imported,
            *subject.snapshot.definitions.assumptions,
            *subject.losses.assumed,
            *promises(subject.losses.promised),
            _of_headers(subject.clients),
            *ALWAYS_ASSUMED[1:],
        ),
        tuple(_unchecked(subject)),
        sum(1 for _ in subject.queues()),
        (*subject.lost, *subject.losses.partial, *subject.losses.held, *subject.unproven),
    )


def findings_about(
    definitions: Definitions, release: Release, queues: Collection[QueueAt]
) -> dict[QueueAt, list[Finding]]:
    """Return what ``lint`` finds about each of these queues, sooner than for all of a large export.

    Raises ``DefinitionsError`` where the broker refuses the whole document.
    """
    found: dict[QueueAt, list[Finding]] = {queue: [] for queue in queues}
    for finding in _findings(Subject(Snapshot(definitions, release), queues)):
        queue = finding.about.vhost, finding.about.name
        if finding.about.kind == "queue" and queue in found:
            found[queue].append(finding)
    return found


def _findings(subject: Subject) -> list[Finding]:
    names = Names(subject.snapshot)
    straight = {id(loss.history) for loss in (*subject.lost, *subject.losses.held) if loss.straight}
    every = (_judged(each, straight) for rule in RULES.values() for each in rule.findings(subject))
    found = in_order(every)
    places = object_places(subject.snapshot.definitions) if found else {}
    if subject.clients:
        found = [_with_line(each, subject) for each in found]
    return [msgspec.structs.replace(each, shape=names.shape(each), place=places.get(each.about)) for each in found]


def _with_line(finding: Finding, subject: Subject) -> Finding:
    """Return the finding with what is stated of clients behind its reason, where it is none without that."""
    about = finding.about.vhost, finding.about.name
    open_to = [*subject.losses.held, *subject.losses.unproven] if not finding.history else []
    shown = (*subject.lost, *subject.losses.held) if finding.history else ()
    lines = [loss.line for loss in shown if loss.line and loss.history is finding.history]
    lines += [loss.line for loss in open_to if (loss.vhost, loss.queue) == about and str(loss.rule) == finding.because]
    if not any(lines):
        return finding
    return msgspec.structs.replace(finding, because=f"{finding.because}; assumed: {subject.clients.said(lines[0])}")


def _judged(finding: Finding, straight: Collection[int]) -> Finding:
    """Return the finding as a warning where a flood of messages has to wait for the loss: nobody sees it soon.

    So is one whose history publishes straight to an exchange for dead letters: ``straight`` has their identities.
    """
    did = actions_in(finding.history)
    flood = did["Publish"] > MESSAGES_MAX or did["bytes"] > BYTES_MAX
    rare = flood or id(finding.history) in straight
    return msgspec.structs.replace(finding, severity="warning") if rare and finding.severity == "error" else finding


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings with the worst first, but the refusal of an object before what else is found about it.

    No server has a refused object as it stands, so nobody can read the other findings without that one.
    """
    found = sorted(findings, key=_order)
    first: dict[ObjectName, tuple[int, int, bool, bool, int, str, Any]] = {}
    for each in found:
        first.setdefault(each.about, _order(each))
    return sorted(found, key=lambda each: (first[each.about], 0) if each.refusal else (_order(each), 1))


def _order(finding: Finding) -> tuple[int, int, bool, bool, int, str, Any]:
    """Return what findings are sorted by: severity, how certain it is, how many actions it takes, code and object.

    First of all comes what a recording shows; what is lost whatever the routing keys are comes before what only some
    keys lose, and both before what is held.
    """
    return (
        BASES.index(finding.basis),
        SEVERITIES.index(finding.severity),
        finding.held,
        finding.some_keys,
        steps.length(finding.history),
        finding.code,
        finding.about,
    )


def promises(promised: Iterable[Loss]) -> list[str]:
    """Return what consumers must not do, in sentences."""
    said = []
    for loss in promised:
        if loss.reason == "rejected":
            said.append(f"without a dead-letter exchange, no consumer rejects for good in '{loss.queue}'")
        else:
            said.append(f"no consumer returns a message to '{loss.queue}' more often than its delivery limit allows")
    return list(dict.fromkeys(said))


def _of_headers(clients: Clients) -> str:
    """Return what is assumed of the headers that nobody states."""
    text = ALWAYS_ASSUMED[0]
    if clients.republish_x_death:
        text = text.replace("CC, BCC or x-death", "CC or BCC")
    return text.replace("CC", "other CC", 1) if any(each.cc for each in clients.publish) else text


def _unchecked(subject: Subject) -> Iterable[str]:
    losses: Losses = subject.losses
    yield from losses.unchecked
    for refused in subject.snapshot.refused:
        if refused.kept == "no":
            yield f"what concerns {refused.about}, which is left out: a server of this release refuses it"
    rules: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for loss in subject.unproven:
        rules[loss.queue][str(loss.rule)] = None
    for queue, each in rules.items():
        yield f"whether messages in '{queue}' can be lost ({'; '.join(each)}): no history of it was found"
