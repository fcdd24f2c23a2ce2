"""Rules about policies, operator policies and permissions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from dlx.amqp_errors import Refusal
from dlx.permissions import check
from dlx.policies import PolicyChoice, choose_policy, is_for_type, pattern_found, why_not
from dlx.releases import Release
from dlx.settings import (
    ARGUMENT,
    DEAD_LETTER_EXCHANGE,
    DEAD_LETTER_ROUTING_KEY,
    DEAD_LETTER_STRATEGY,
    Origin,
    Setting,
    Settings,
)
from dlx.topology import STOCK_EXCHANGES, Exchange, Policy, Queue
from simulator.analysis.findings import Fix, ObjectName
from simulator.analysis.lint.fixes import set_by_policy
from simulator.analysis.lint.rule import (
    Found,
    QueueAt,
    Subject,
    is_stream,
    policy_name,
    queue_name,
    rule,
    said_by,
    shown,
)

_NAMES = (DEAD_LETTER_EXCHANGE, DEAD_LETTER_ROUTING_KEY, DEAD_LETTER_STRATEGY)


@rule("DLX007", "argument-hides-policy")
def argument_hides_policy(subject: Subject) -> Iterator[Found]:
    """An argument of a queue hides what a policy says about the same thing.

    Why: whoever changes the policy later believes that it reaches the queue. It does not: for dead-letter settings
    the argument wins, for limits the smaller value does.
    Example: queue 'orders' with x-dead-letter-exchange 'old.dlx' under a policy with dead-letter-exchange 'dlx'.
    Fix: declare the queue without the argument, so that the policy applies.
    """
    for queue, settings in subject.queues():
        for key, setting in settings.values.items():
            hidden = [
                (value, origin)
                for value, origin in setting.hidden
                if origin.kind == "policy" and value != setting.value
            ]
            if setting.origin == ARGUMENT and hidden:
                value, origin = hidden[0]
                yield Found(
                    severity="warning" if key in _NAMES else "note",
                    about=queue_name(queue),
                    message=f"argument x-{key} {shown(setting.value)} of '{queue[1]}' hides {shown(value)} by "
                    f"{origin}.",
                    because=said_by(setting),
                    fix=_unhide(subject, queue, key, origin.name),
                )


def _unhide(subject: Subject, queue: QueueAt, key: str, policy: str) -> Fix:
    """Return the fix for a hidden value. The argument may be what brings messages back from a queue where they wait."""
    if key in _NAMES and (queue in subject.looping or queue in subject.sources):
        keep = f"keep x-{key} if it is meant: it says where dead letters that wait in '{queue[1]}' go on"
        return Fix(True, f"{keep}. Let the pattern of policy {policy} leave '{queue[1]}' out")
    return Fix(False, f"delete '{queue[1]}' and declare it without x-{key}")


@rule("DLX008", "policy-shadowed")
def policy_shadowed(subject: Subject) -> Iterator[Found]:
    """A policy gives a queue a dead-letter exchange, but another one applies instead, and gives it none.

    Why: only one policy applies to a queue, the one with the highest priority; policies are not merged. So a policy
    for a TTL can take the dead-letter exchange away, and what dies is dropped.
    Example: policy 'ttl' (priority 10, message-ttl) before policy 'dlx' (priority 0, dead-letter-exchange).
    Fix: put the dead-letter exchange into the policy that applies.
    """
    for queue, applied, shadowed in _shadowed(subject):
        value = shadowed[0].definition[DEAD_LETTER_EXCHANGE]
        yield Found(
            severity="warning",  # what is lost by that, no-dlx-on-rejecting says
            about=queue_name(queue),
            message=f"'{queue[1]}' gets no dead-letter exchange: policy '{applied.name}' (priority "
            f"{applied.priority}) applies instead of '{shadowed[0].name}' (priority {shadowed[0].priority}), "
            f"which sets it to {shown(value)}.",
            because=f"policy {applied.name}",
            fix=set_by_policy(subject, queue, _dead_lettering(shadowed[0])),
        )


def _shadowed(subject: Subject) -> Iterator[tuple[QueueAt, Policy, list[Policy]]]:
    """Yield queues that would have a dead-letter exchange if another policy applied: that which does, and those."""
    for queue, settings in subject.queues():
        applied = settings.policy.policy
        if applied is None or settings.dead_letters or is_stream(settings):
            continue
        shadowed = [each for each in _beaten(settings.policy, settings) if DEAD_LETTER_EXCHANGE in each.definition]
        if shadowed:
            yield queue, applied, shadowed


def _dead_lettering(policy: Policy) -> dict[str, Any]:
    """Return what a policy says of where dead letters go."""
    return {key: policy.definition[key] for key in _NAMES[:2] if key in policy.definition}


def _beaten(choice: PolicyChoice, settings: Settings) -> list[Policy]:
    """Return the policies that would apply if no other one did."""
    return [
        each
        for each in choice.policies
        if each != choice.policy and why_not(each, settings.queue, settings.release) is None
    ]


@rule("DLX033", "policy-without-effect")
def policy_without_effect(subject: Subject) -> Iterator[Found]:
    """A policy or an operator policy applies to no queue and no exchange of the definitions.

    Why: its pattern is found in no name, it is for objects of another kind, or another policy comes before it
    everywhere. What it says happens nowhere. It is a note where a queue that a client declares later may have such a
    name.
    Example: policy 'dlx' with pattern '^order$', where the queues are called 'orders' and 'orders.eu'.
    Fix: correct its pattern, its apply-to or its priority, or remove it.
    """
    told = {policy_name(queue[0], each) for queue, _, shadowed in _shadowed(subject) for each in shadowed}
    told |= {each.about for each in subject.snapshot.refused}
    for idle in idle_policies(subject):
        if idle.about in told or is_for_type(idle.why):
            continue
        kind, name = idle.about.kind, idle.about.name
        yield Found(
            severity="note" if idle.is_for_other_names else "warning",
            about=idle.about,
            message=f"{kind} '{name}' applies to no queue and no exchange: {idle.why}.",
            because=f"{kind} '{name}'",
            fix=Fix(True, "correct its pattern, its apply-to or its priority, or remove it"),
        )


class IdlePolicy(NamedTuple):
    """A policy that applies to nothing, why not, and whether its pattern is found in no name."""

    about: ObjectName
    why: str
    is_for_other_names: bool


def idle_policies(subject: Subject) -> Iterator[IdlePolicy]:
    """Yield the policies that apply to no queue and no exchange.

    Every virtual host has exchanges of the server; a policy that is not for exchanges alone is not meant for them.
    """
    for vhost, flow in subject.snapshot.flows.items():
        topology, rules = flow.topology, flow.release
        exchanges = [each for each in topology.exchanges.values() if each.name]
        targets: list[Queue | Exchange] = [*topology.queues.values(), *exchanges]
        for policies, operator in ((topology.policies, False), (topology.operator_policies, True)):
            settings = [flow.settings(name) for name in topology.queues]
            choices = [each.operator_policy if operator else each.policy for each in settings]
            choices += (choose_policy(each, policies, rules) for each in exchanges if policies)
            applied = {
                each.name
                for choice in choices
                for each in (choice.policy, *choice.tied)
                if each is not None and (each.apply_to == "exchanges" or choice.target not in STOCK_EXCHANGES)
            }
            for policy in policies:
                if policy.name not in applied:
                    why, other = _why_idle(policy, targets, rules)
                    yield IdlePolicy(policy_name(vhost, policy, operator=operator), why, other)


def _why_idle(policy: Policy, targets: list[Queue | Exchange], rules: Release) -> tuple[str, bool]:
    named = [each for each in targets if pattern_found(policy.pattern, each.name, rules.regex_library)]
    whys = {why_not(policy, each, rules): each for each in named}
    if not named:
        return f"its pattern {shown(policy.pattern)} is found in no name", True
    if None in whys:
        return f"wherever it could apply, as to '{whys[None].name}', another policy comes first", False
    first = next(why for why in whys if why is not None)
    return f"its pattern {shown(policy.pattern)} is found in names, but {first}", False


@rule("DLX009", "ambiguous-policy")
def ambiguous_policy(subject: Subject) -> Iterator[Found]:
    """Two policies of equal priority match a queue and say different things.

    Why: RabbitMQ does not define which of them applies, and it can change when one is set again.
    Example: policies 'a' and 'b', both of priority 0 and pattern '.*', with different dead-letter exchanges.
    Fix: give them different priorities, or patterns that do not overlap.
    """
    for queue, settings in subject.queues():
        for choice, kind in ((settings.policy, "policy"), (settings.operator_policy, "operator policy")):
            if choice.policy is not None and choice.disagreeing:
                names = ", ".join(f"'{each.name}'" for each in (choice.policy, *choice.disagreeing))
                yield Found(
                    severity="warning",
                    about=queue_name(queue),
                    message=f"several of the {kind[:-1]}ies {names} of equal priority match '{queue[1]}': RabbitMQ may "
                    f"take any. '{choice.policy.name}' is assumed here.",
                    because=f"{kind} {choice.policy.name}",
                    fix=Fix(True, "give them different priorities"),
                )


@rule("DLX022", "forbidden-by-operator-policy")
def forbidden_by_operator_policy(subject: Subject) -> Iterator[Found]:
    """An operator policy overrules a value that the queue or its policy asks for.

    Why: operators protect the broker with limits that users cannot lift. The queue keeps less, or for a shorter
    time, than its owner believes.
    Example: x-message-ttl 86400000 under an operator policy with message-ttl 3600000.
    Fix: ask the operator, or set what is allowed.
    """
    overruled: defaultdict[tuple[ObjectName, str], list[tuple[QueueAt, Setting]]] = defaultdict(list)
    for queue, settings in subject.queues():
        for key, setting in settings.values.items():
            if setting.origin.kind == "operator policy" and _asked(setting):
                policy = ObjectName(setting.origin.kind, queue[0], setting.origin.name)
                overruled[policy, key].append((queue, setting))
    for (policy, key), queues in overruled.items():
        queue, setting = queues[0]
        value, origin = _asked(setting)[0]
        more = len(queues) - 1
        also = f"; it overrules {key} of {more:,} other queues as well" if more else ""
        yield Found(
            severity="warning",
            about=policy if more else queue_name(queue),
            message=f"'{queue[1]}' asks for {key} {shown(value)} by {origin}, and {setting.origin} makes it "
            f"{shown(setting.value)}{also}.",
            because=said_by(setting),
            fix=Fix(True, f"in {setting.origin}: allow {shown(value)}, or ask for no more than that"),
        )


def _asked(setting: Setting) -> list[tuple[Any, Origin]]:
    """Return the other values that an owner of the queue asks for, with where they come from."""
    return [(value, origin) for value, origin in setting.hidden if value != setting.value]


@rule("DLX021", "permission-denied-dlx")
def permission_denied_dlx(subject: Subject) -> Iterator[Found]:
    """A user may declare a queue, but not with the dead-letter exchange that it has.

    Why: whoever declares a queue with a dead-letter exchange needs permission to read the queue and to write to the
    exchange. Without it the declaration ends the channel with 403, for example after the queue was deleted.
    Example: user 'app' may configure and read 'orders', but not write to exchange 'dlx'.
    Fix: grant write permission for the exchange.
    """
    for (vhost, name), settings in subject.queues():
        dlx = settings.values.get(DEAD_LETTER_EXCHANGE)
        if dlx is None or dlx.origin != ARGUMENT or not isinstance(dlx.value, str):
            continue
        for granted in _grants(subject, vhost):
            needed = (("read", "queue", name), ("write", "exchange", dlx.value))
            lacks = [f"{what} {kind} '{of}'" for what, kind, of in needed if not granted.allows(what, kind, of)]
            if lacks and granted.allows("configure", "queue", name):
                yield Found(
                    severity="warning",
                    about=queue_name((vhost, name)),
                    message=f"user '{granted.user}' may declare '{name}', but not with its dead-letter exchange: it "
                    f"may not {' nor '.join(lacks)}.",
                    because=f"permissions of '{granted.user}'",
                    fix=Fix(True, f"grant '{granted.user}' permission to {' and to '.join(lacks)}"),
                )


class _Granted:
    """The permissions of one user in one virtual host."""

    def __init__(self, grant: Mapping[str, Any], vhost: str, release: Release) -> None:
        self.configure, self.write, self.read = (str(grant.get(each, "")) for each in ("configure", "write", "read"))
        self.user, self._vhost, self._release = str(grant.get("user", "")), vhost, release

    def allows(self, what: str, kind: str, name: str) -> bool:
        """Tell whether the user may do it."""
        try:
            check(self, what, kind, name, vhost=self._vhost, user=self.user, release=self._release)
        except Refusal:
            return False
        return True


def _grants(subject: Subject, vhost: str) -> list[_Granted]:
    snapshot = subject.snapshot
    grants = snapshot.definitions.document.get("permissions", ())
    here = [each for each in grants if snapshot.only_vhost is not None or each.get("vhost") == vhost]
    return [_Granted(each, vhost, snapshot.release) for each in here]
