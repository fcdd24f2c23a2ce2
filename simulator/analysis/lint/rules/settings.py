"""Rules about settings that do not do what they say."""

from __future__ import annotations

import html
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from dlx.binding_index import not_compared
from dlx.declarations import EXCHANGE_ARGUMENTS
from dlx.nearest_names import nearest
from dlx.policies import unsupported_keys
from dlx.settings import (
    DEAD_LETTER_EXCHANGE,
    DEAD_LETTER_ROUTING_KEY,
    DEAD_LETTER_STRATEGY,
    DELIVERY_LIMIT,
    OVERFLOW,
    REJECT_PUBLISH,
    REJECT_PUBLISH_DLX,
    Settings,
)
from dlx.topology import QUORUM
from simulator.analysis.findings import Fix, ObjectName, few
from simulator.analysis.lint.fixes import dead_letter_to, obvious_address, set_by_policy
from simulator.analysis.lint.rule import (
    Found,
    QueueAt,
    Subject,
    by_its_policy,
    change,
    is_stream,
    policy_name,
    queue_name,
    rule,
    said_by,
    shown,
)
from simulator.analysis.snapshot import RefusedObject, Snapshot, object_name, whole_file
from simulator.definitions.checks import misspelt, mistaken_arguments
from simulator.definitions.reading import FIRST_COUNTS, SECTIONS
from simulator.definitions.schema import OBJECT_FIELDS, TOP_FIELDS
from simulator.json_values import fields_shown

_NEAR = 0.85
_DEAD_LETTER_KEYS = (DEAD_LETTER_EXCHANGE, DEAD_LETTER_ROUTING_KEY, DEAD_LETTER_STRATEGY)


def _useless(subject: Subject, key: str) -> Iterator[tuple[ObjectName, str, str, Fix]]:
    """Yield queues for which somebody set the key in vain: the object, what happens, what decides it, and the fix."""
    for queue, settings in subject.queues():
        for setting, why in settings.ignored:
            if setting.key == key:
                fix = Fix(setting.origin.kind != "argument", f"remove {key} by {setting.origin}: it does nothing")
                yield queue_name(queue), f"{said_by(setting)} has no effect: {why}", said_by(setting), fix


def _kept_away(subject: Subject, key: str) -> Iterator[tuple[ObjectName, dict[QueueAt, str]]]:
    """Yield policies that would apply to queues if their type supported the key: these queues, each with the reason."""
    found: defaultdict[ObjectName, dict[QueueAt, str]] = defaultdict(dict)
    for queue, settings in subject.queues():
        for choice, operator in ((settings.policy, False), (settings.operator_policy, True)):
            for skipped in choice.kept_away_by(key):
                found[policy_name(queue[0], skipped.policy, operator=operator)][queue] = skipped.why
    yield from found.items()


def _policy_found(policy: ObjectName, queues: dict[QueueAt, str], key: str, consequence: str) -> Found:
    """Return the finding about a policy that is kept away from queues; about the queue, where it is one."""
    named = few([shown(name) for _, name in queues])
    whys = " and ".join(dict.fromkeys(queues.values()))
    return Found(
        severity="warning",
        about=queue_name(next(iter(queues))) if len(queues) == 1 else policy,
        message=f"{policy.kind} '{policy.name}' does not apply to {named} at all, none of its keys: {whys}."
        + consequence,
        because=f"{policy.kind} {policy.name}",
        fix=Fix(True, f"take {key} out of {policy.kind} '{policy.name}', or make a policy for each type"),
    )


def _found(subject: Subject, key: str, consequence: str) -> Iterator[Found]:
    for policy, queues in _kept_away(subject, key):
        streams = all(_stream(subject, queue_name(queue)) for queue in queues)
        yield _policy_found(policy, queues, key, "" if streams else f" {consequence}")
    for about, why, deciding, fix in _useless(subject, key):
        yield Found(
            severity="warning",
            about=about,
            message=f"'{about.name}': {why}. {consequence}",
            because=deciding,
            fix=fix,
        )
    yield from _refused(subject, f"x-{key}")


def _refused(subject: Subject, argument: str, fix: str = "") -> Iterator[Found]:
    """Yield queues that the broker refuses to declare because of an argument."""
    for each in subject.snapshot.refused:
        if f"'{argument}'" in each.why:
            yield Found(
                severity="warning",
                about=each.about,
                message=f"a server of {subject.snapshot.release.name} refuses '{each.about.name}'"
                f"{', and an import fails' if each.words else ''}: {each.why}.",
                because=f"argument {argument}",
                fix=Fix(True, fix or f"declare the queue without {argument}"),
                refusal=True,
            )


@rule("DLX011", "delivery-limit-ignored")
def delivery_limit_ignored(subject: Subject) -> Iterator[Found]:
    """A delivery limit is set for a queue that is not a quorum queue.

    Why: only quorum queues count returns. In a classic queue a message that crashes its consumer comes back for
    ever; a stream gives each consumer what it asks for. A policy with a key that the type does not support does not
    apply at all.
    Example: classic queue 'orders' under a policy with delivery-limit 5.
    Fix: make the queue a quorum queue, or count attempts in the consumer.
    """
    yield from _found(subject, DELIVERY_LIMIT, "Messages that crash their consumer come back for ever.")


@rule("DLX012", "at-least-once-ineffective")
def at_least_once_ineffective(subject: Subject) -> Iterator[Found]:
    """At-least-once dead-lettering is asked for, and at-most-once happens.

    Why: the strategy needs a quorum queue, a dead-letter exchange, and overflow reject-publish. Where one is
    missing, RabbitMQ falls back to at-most-once, and dead letters can be lost on their way.
    Example: quorum queue 'orders' with x-dead-letter-strategy at-least-once and the default overflow, drop-head.
    Fix: set overflow to reject-publish.
    """
    for queue, settings in subject.queues():
        why = settings.why_at_most_once
        if why is None:
            continue
        yield Found(
            severity="warning",
            about=queue_name(queue),
            message=f"'{queue[1]}' {why}, and dead letters can be lost.",
            because=said_by(settings.values[OVERFLOW if settings.dead_letters else DEAD_LETTER_STRATEGY]),
            fix=_make_effective(subject, queue, settings),
        )
    yield from _found(subject, DEAD_LETTER_STRATEGY, "Its dead letters can be lost on their way.")


def _make_effective(subject: Subject, queue: QueueAt, settings: Settings) -> Fix:
    """Return the fix that makes at-least-once dead-lettering happen in a queue that asks for it."""
    if not settings.dead_letters:
        address = obvious_address(subject, queue)
        if address is not None:
            return dead_letter_to(subject, queue, address)
        return Fix(True, f"{by_its_policy(subject, queue)}: set dead-letter-exchange as well")
    overflow = settings.values.get(OVERFLOW)
    if overflow is None or overflow.origin.kind in ("policy", "server default"):
        return set_by_policy(subject, queue, {OVERFLOW: REJECT_PUBLISH})
    return change(subject, queue, OVERFLOW, f"set overflow to {REJECT_PUBLISH}")


@rule("DLX013", "overflow-unsupported")
def overflow_unsupported(subject: Subject) -> Iterator[Found]:
    """An overflow behaviour is set that the type of the queue does not have in this release.

    Why: a quorum queue takes reject-publish-dlx for drop-head: publishers are not told that the queue is full, and
    its oldest messages leave instead of the newest.
    Example: quorum queue 'orders' under a policy with overflow reject-publish-dlx.
    Fix: choose reject-publish or drop-head.
    """
    for queue, settings in subject.queues():
        setting = settings.values.get(OVERFLOW)
        if setting is not None and setting.value == REJECT_PUBLISH_DLX and settings.queue.type == QUORUM:
            yield Found(
                severity="warning",
                about=queue_name(queue),
                message=f"quorum queue '{queue[1]}' takes overflow reject-publish-dlx for drop-head: full, it drops "
                "its oldest message and refuses no publish.",
                because=said_by(setting),
                fix=change(subject, queue, OVERFLOW, "set overflow to reject-publish or drop-head"),
            )
    yield from _found(subject, OVERFLOW, "When it is full it does something else.")


@rule("DLX018", "dead-letter-key-alone")
def dead_letter_key_alone(subject: Subject) -> Iterator[Found]:
    """A queue has a dead-letter routing key and no dead-letter exchange.

    Why: the key does nothing without an exchange, so what dies is dropped. As an argument, RabbitMQ refuses it.
    Example: a policy with dead-letter-routing-key 'orders.dead' alone.
    Fix: set dead-letter-exchange as well; '' stands for the default exchange.
    """
    for queue, settings in subject.queues():
        setting = settings.values.get(DEAD_LETTER_ROUTING_KEY)
        if setting is not None and not settings.dead_letters and not is_stream(settings):
            yield Found(
                severity="warning",
                about=queue_name(queue),
                message=f"'{queue[1]}' has a dead-letter routing key and no dead-letter exchange: what dies is "
                "dropped.",
                because=said_by(setting),
                fix=_add_exchange(subject, queue),
            )
    fix = "declare the queue with x-dead-letter-exchange as well ('' is the default exchange)"
    yield from _refused(subject, f"x-{DEAD_LETTER_ROUTING_KEY}", fix)


def _add_exchange(subject: Subject, queue: QueueAt) -> Fix:
    """Return the fix for a dead-letter routing key alone."""
    address = obvious_address(subject, queue)
    if address is not None:
        return dead_letter_to(subject, queue, address)
    return Fix(True, f"{by_its_policy(subject, queue)}: set dead-letter-exchange as well ('' is the default)")


@rule("DLX019", "stream-never-dead-letters")
def stream_never_dead_letters(subject: Subject) -> Iterator[Found]:
    """A stream has dead-letter settings.

    Why: streams keep what they have until their retention ends. Nothing dies in them, so nothing is dead-lettered.
    Example: stream 'audit' under a policy with dead-letter-exchange 'dlx'.
    Fix: remove the setting; let consumers publish what they cannot process.
    """
    told = set()
    for key in _DEAD_LETTER_KEYS:
        for about, why, deciding, fix in _useless(subject, key):
            if about not in told and _stream(subject, about):
                told.add(about)
                yield Found(
                    severity="warning",
                    about=about,
                    message=f"stream '{about.name}' never dead-letters: {why}.",
                    because=deciding,
                    fix=fix,
                )
        for policy, queues in _kept_away(subject, key):
            streams = {queue: why for queue, why in queues.items() if _stream(subject, queue_name(queue))}
            if streams and policy not in told:
                told.add(policy)
                yield _policy_found(policy, streams, key, " A stream never dead-letters.")
        for found in _refused(subject, f"x-{key}"):
            if found.about not in told and _stream(subject, found.about):
                told.add(found.about)
                yield found


def _stream(subject: Subject, about: ObjectName) -> bool:
    topology = subject.snapshot.definitions.topology(about.vhost)
    return topology.queues[about.name].type == "stream"


@rule("DLX025", "refused-object")
def refused_object(subject: Subject) -> Iterator[Found]:
    """A server of this release refuses an object of the definitions when they are imported.

    Why: one refused object fails the whole import. The server answers with an error; what it has imported by then
    stays, and what would come later is not there, such as all queues after a refused user or policy. A running server
    may have the object all the same, such as a policy from before an upgrade; so questions are asked of it as far as
    the release knows it. Of a file that is not JSON nothing is imported.
    Example: a queue with x-max-priority 300, a policy with ha-mode under 4.0, permissions of an absent user; a comma
    behind the last item of a list, which servers take until 3.10.
    Fix: correct what is refused, or take it out, before you import the definitions.
    """
    snapshot, definitions, release = subject.snapshot, subject.snapshot.definitions, subject.snapshot.release
    if not definitions.is_strict and not release.json_lenient:
        yield Found(
            severity="warning",
            about=whole_file(definitions),
            message=f"an import into {release.name} refuses the whole file: {definitions.remarks[0]}.",
            because="servers from 3.11 on read JSON as its standard has it",
            fix=Fix(True, "write it as JSON, without commas at the end of lists and objects and without comments"),
        )
    for each in (*snapshot.refused, *snapshot.refused_users, *snapshot.refused_as_written):
        if each.properties or not _has_own_rule(subject, each):
            own = not each.words or bool(nearest(_said(each.words), [each.why], _NEAR))
            checks = f"the checks of {'an import' if definitions.is_imported else 'servers'}"
            words = checks if own else f"the server says: {_said(each.words)}"
            if each.declaration:
                words = f"a server says to a client that declares it: {_said(each.declaration)}"
            fix = f"set {' and '.join(each.properties)}" if each.properties else _CORRECT
            if each.properties and "'x-" in each.why:
                fix += ", and correct the arguments"
            yield Found(
                severity="warning",
                about=each.about,
                message=f"{snapshot.sentence(each)}.",
                because=words,
                fix=Fix(True, fix),
                refusal=True,
            )


_CORRECT = "correct it, or take it out"
_IN_OTHER_RULES = (DELIVERY_LIMIT, DEAD_LETTER_STRATEGY, OVERFLOW, DEAD_LETTER_ROUTING_KEY)


def _has_own_rule(subject: Subject, refused: RefusedObject) -> bool:
    """Return whether another rule reports the argument for which a queue is refused."""
    named = any(f"'x-{key}'" in refused.why for key in _IN_OTHER_RULES)
    return named or (f"'x-{DEAD_LETTER_EXCHANGE}'" in refused.why and _stream(subject, refused.about))


def _said(words: str) -> str:
    """Return what a server says as one line: over HTTP it is escaped twice, and may be a binary."""
    text = html.unescape(words)
    if text.startswith('<<"') and text.endswith('">>'):
        text = text[3:-3].replace('\\"', '"').replace("\\n", "\n")
    return " ".join(text.split())


@rule("DLX028", "undeclared-name")
def undeclared_name(subject: Subject) -> Iterator[Found]:
    """A binding names an exchange or a queue that is not declared, or an object a virtual host.

    Why: an import fails there; until 3.12 it leaves such a binding out. Servers leave internal exchanges and exclusive
    queues out of their exports, and not always what binds them: no server imports such an export as it stands. A
    running server may have them, so of one only a name is reported that comes very near a declared one.
    Beside objects of Kubernetes or Terraform, others may declare it; it is a note then, unless a name comes near.
    Example: a binding from 'order_events', where 'orders_events' is declared.
    Fix: declare it, or correct its name in the binding.
    """
    snapshot = subject.snapshot
    vhosts = list(_undeclared_vhosts(snapshot))
    yield from vhosts
    exported = snapshot.definitions.rabbitmq_version is not None
    fails = snapshot.release.definitions_impossible_bindings == "refused"
    told = {each.about.vhost for each in vhosts}
    left_out = []
    for about in sorted(each for each in (*snapshot.stand_ins, *snapshot.left_out) if each.vhost not in told):
        topology = snapshot.topologies[about.vhost]
        names = topology.queues if about.kind == "queue" else topology.exchanges
        declared = [name for name in names if ObjectName(about.kind, about.vhost, name) not in
                    {*snapshot.stand_ins, *snapshot.left_out}]  # fmt: skip
        near = nearest(about.name, declared, _NEAR if exported else 0.6)
        if about.name.startswith("amq.") or (exported and not near):
            left_out.append(about)
            continue
        unmeant = "." if snapshot.definitions.is_imported else ": it is taken to be there."
        meant = f"; did you mean {near[0]!r}?" if near else unmeant
        yield Found(
            severity="warning" if near or snapshot.definitions.is_imported else "note",
            about=about,
            message=f"{about} of a binding {_not_declared(snapshot, fails=fails)}{meant}",
            because=_BETWEEN_DECLARED if snapshot.definitions.is_imported else "servers bind only what is declared",
            fix=Fix(True, f"declare {about}, or correct its name in the binding"),
        )
    if fails and snapshot.definitions.is_imported and not snapshot.definitions.is_of_server:
        yield from _left_out_of_export(snapshot, left_out)


_BETWEEN_DECLARED = "servers import a binding only between what is declared"


def _left_out_of_export(snapshot: Snapshot, left_out: Iterable[ObjectName]) -> Iterator[Found]:
    """Yield one finding about all that only bindings name, and that a server may have left out of its export."""
    bound = {
        ObjectName(kind, vhost, name)
        for item, vhost in snapshot.items("bindings")
        for kind, name in (("exchange", item["source"]), (item["destination_type"], item["destination"]))
    }
    missing = [each for each in left_out if each in bound]
    if missing:
        are, them = ("is", "it") if len(missing) == 1 else ("are", "them")
        yield Found(
            severity="warning",
            about=missing[0],
            message=f"bindings name {few(list(map(str, missing)))}, which {are} not declared: an import fails. Exports "
            f"leave out internal exchanges and exclusive queues, so a running server may have {them}.",
            because=_BETWEEN_DECLARED,
            fix=Fix(True, f"declare {them}, or take what binds {them} out of what you import"),
        )


def _not_declared(snapshot: Snapshot, *, fails: bool) -> str:
    if not snapshot.definitions.is_imported:
        return "is not declared here"
    return f"is not declared: an import {'fails' if fails else 'leaves the binding out'}"


def _undeclared_vhosts(snapshot: Snapshot) -> Iterator[Found]:
    """Yield virtual hosts that objects name and nothing declares; in YAML only those that may be meant for others."""
    undeclared = {*snapshot.undeclared_vhosts, *snapshot.definitions.assumed_vhosts} - {"/"}
    for vhost in sorted(undeclared):
        near = nearest(vhost, sorted(snapshot.topologies.keys() - undeclared), 0.6)
        if near or vhost not in snapshot.definitions.assumed_vhosts:
            meant = f"; did you mean {near[0]!r}?" if near else "."
            yield Found(
                severity="warning",
                about=ObjectName("vhost", vhost, vhost),
                message=f"objects are in virtual host '{vhost}', which {_not_declared(snapshot, fails=True)}{meant}",
                because="servers have objects only in a virtual host that is there",
                fix=Fix(True, f"declare virtual host '{vhost}', or correct its name in the objects"),
            )


_KNOWN_NAMES = "servers look only at names that they know"


@rule("DLX029", "misspelt-name")
def misspelt_name(subject: Subject) -> Iterator[Found]:
    """An argument, a field of an object, or a section of the document has a name that no server knows.

    Why: servers take arguments, fields and sections of any name, and look only at those they know. They say nothing:
    the queue does not have the setting, and what stands in the section or the field is not imported.
    Example: queue 'orders' with x-dead-leter-exchange 'dlx': what dies in it is dropped; with x-max-retries 3, which
    no server knows, it limits nothing.
    Fix: set what is meant by policy, and correct the name.
    """
    for name, meant in misspelt(subject.snapshot.definitions.document, SECTIONS):
        yield Found(
            severity="warning",
            about=ObjectName("section", "", name),
            message=f"servers ignore section '{name}'; did you mean '{meant}'?",
            because=_KNOWN_NAMES,
            fix=Fix(True, f"call the section {meant}"),
        )
    yield from _unknown_sections(subject.snapshot.definitions.document)
    wrong = [(item, ObjectName("queue", vhost, item["name"]), name, meant)
             for item, vhost in subject.snapshot.items("queues")
             for name, meant in mistaken_arguments(item.get("arguments") or ())]  # fmt: skip
    wrong += [(item, ObjectName("exchange", vhost, item["name"]), name, meant)
              for item, vhost in subject.snapshot.items("exchanges")
              for name, meant in misspelt(item.get("arguments") or (), EXCHANGE_ARGUMENTS)]  # fmt: skip
    for item, about, name, meant in wrong:
        yield Found(
            severity="warning",
            about=about,
            message=f"servers ignore argument {name} of '{about.name}'; did you mean {meant}?",
            because=_KNOWN_NAMES,
            fix=_rename(subject, about, name, meant, item["arguments"][name]),
        )
    for section, kind in (("queues", "queue"), ("exchanges", "exchange"), ("policies", "policy")):
        for item, vhost in subject.snapshot.items(section):
            for name, meant in misspelt(item, OBJECT_FIELDS[section]):
                yield Found(
                    severity="warning",
                    about=ObjectName(kind, vhost, item["name"]),
                    message=f"servers ignore field '{name}' of {kind} '{item['name']}'; did you mean '{meant}'?",
                    because=_KNOWN_NAMES,
                    fix=Fix(True, f"call the field {meant}"),
                )


_INSTEAD = {
    "operator_policies": "write each as one of the parameters, with component operator_policy, its name and virtual "
    "host, and the rest of it as the value",
}
"""What to do in place of sections that look as if servers had them."""


def _unknown_sections(document: Mapping[str, Any]) -> Iterator[Found]:
    """Yield sections that hold objects and have a name that is not near that of any section."""
    near = dict(misspelt(document, SECTIONS))
    for name, value in document.items():
        holds_objects = isinstance(value, list) and any(isinstance(each, dict) for each in value)
        if holds_objects and name not in {*SECTIONS, *TOP_FIELDS, *near}:
            yield Found(
                severity="warning",
                about=ObjectName("section", "", name),
                message=f"servers ignore section '{name}': an import has nothing of it, and says nothing.",
                because=_KNOWN_NAMES,
                fix=Fix(True, _INSTEAD.get(name, f"take {name} out, or write its objects in a section of exports")),
            )


def _rename(subject: Subject, about: ObjectName, name: str, meant: str, value: object) -> Fix:
    """Return the fix for a mistaken argument: a policy gives the queue that is there what was meant, if it can."""
    key = meant.removeprefix("x-")
    declared = subject.snapshot.flows[about.vhost].topology.queues if about.vhost in subject.snapshot.flows else {}
    by_policy = key in subject.snapshot.release.policy_keys and about.kind == "queue" and about.name in declared
    if not by_policy:
        return Fix(False, f"delete {about.kind} '{about.name}' and declare it with {meant}")
    queue = about.vhost, about.name
    if key in unsupported_keys(declared[about.name], subject.snapshot.release):
        kind = declared[about.name].type
        return Fix(False, f"{kind} queues have no {key}: declare one of another type, or do without")
    declare = f"name it {meant} where the queue is declared the next time"
    to = f" to {shown(value)}" if any(misspelt([name], [meant])) else ""
    return Fix(True, f"{by_its_policy(subject, queue)}: set {key}{to}; {declare}")


@rule("DLX034", "header-not-compared")
def header_not_compared(subject: Subject) -> Iterator[Found]:
    """A binding of a headers exchange has arguments that begin with x-, and its x-match passes over them.

    Why: x-match all and any compare no header whose name begins with x-, such as x-first-death-reason. Where nothing is
    left to compare, all takes every message and any takes none. all-with-x and any-with-x compare them, from 3.10 on.
    Example: dead letters are to be sorted by x-first-death-reason with x-match all: each queue gets all of them.
    Fix: bind with all-with-x or any-with-x in place of it; before 3.10, compare a header of another name.
    """
    for item, vhost in subject.snapshot.items("bindings"):
        topology, release = subject.snapshot.topologies.get(vhost), subject.snapshot.release
        exchange = None if topology is None else topology.exchanges.get(item["source"])
        if exchange is None or exchange.type != "headers":
            continue
        arguments = item.get("arguments") or {}
        kind = str(arguments.get("x-match", "all"))
        refused = kind.endswith("-with-x") and not release.headers_match_with_x  # DLX025 tells it
        why = None if refused else not_compared(arguments, release)
        if why:
            nothing = why.startswith("compares nothing")
            takes = f", so it takes {'no' if kind.startswith('any') else 'every'} message" if nothing else ""
            of = f"the binding of exchange '{exchange.name}' to '{item['destination']}'"
            asks = ", ".join(fields_shown(arguments))
            bound = f"bind '{item['destination']}' with x-match={kind}-with-x, then remove the binding with {kind}"
            fix = bound if release.headers_match_with_x else "compare a header whose name does not begin with x-"
            yield Found(
                severity="warning",
                about=object_name("bindings", item, vhost),
                message=f"{of} with {asks} {why}{takes}.",
                because=f"x-match is {shown(kind)} {'by argument' if 'x-match' in arguments else 'by default'}",
                fix=Fix(True, fix),
            )


@rule("DLX030", "duplicate-object")
def duplicate_object(subject: Subject) -> Iterator[Found]:
    """Several queues, exchanges or policies of the definitions have one name in one virtual host.

    Why: there can be only one. An import takes the first queue or exchange and the last policy of that name, and is
    silent about the others.
    Example: two queues 'orders', the second one with a dead-letter exchange: the queue has none.
    Fix: keep one of them.
    """
    kinds = {"queues": "queue", "exchanges": "exchange", "policies": "policy"}
    is_imported = subject.snapshot.definitions.is_imported
    for section, kind in kinds.items():
        same: defaultdict[ObjectName, list[Mapping[str, Any]]] = defaultdict(list)
        for item, vhost in subject.snapshot.items(section):
            same[ObjectName(kind, vhost, item["name"])].append(item)
        counts = "first" if section in FIRST_COUNTS else "last"
        for about, items in same.items():
            if len(items) > 1:
                yield Found(
                    severity="warning" if any(each != items[0] for each in items) else "note",
                    about=about,
                    message=f"the definitions have {about} {len(items)} times: "
                    f"servers {f'take the {counts} one' if is_imported else 'have only one'}.",
                    because=f"an import takes the {counts} {kind} of a name"
                    if is_imported
                    else f"a server has one {kind} of a name",
                    fix=Fix(True, f"keep one {kind} '{about.name}'"),
                )
