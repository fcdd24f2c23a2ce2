"""Names what is behind a finding: the deciding rule with its setting, what that hides, and what was assumed."""

from __future__ import annotations

from collections.abc import Iterator

from dlx.possible_deaths import Rule
from dlx.settings import Setting
from simulator.events import Event
from simulator.questions.losses import REFUSED, REMOVED, losses_at
from simulator.questions.reachability import reached
from simulator.questions.walk import Walk
from simulator.scenario.properties.property import PropertyBroken
from simulator.testing.search.counterexample import Finder

_FATES = {
    Event.CYCLE_DROPPED: ("cycle",),
    Event.UNROUTABLE: ("unroutable",),
    Event.PURGED: (REMOVED,),
    Event.DROPPED: ("no dead-letter exchange", "dead-letter exchange missing", "lost in a stream", REFUSED),
}


def deciding_rule(search: Finder, broken: PropertyBroken) -> Rule | None:
    """Return the rule by which the message was lost; ``None`` where it was not lost, or no rule fits."""
    event = broken.event
    if event is None or event.event not in _FATES or event.vhost not in search.flows:
        return None
    walk = Walk(search.flows[event.vhost], event.vhost, search.publishes)
    for place in walk.places:
        for loss in losses_at(place, walk, False):
            here = event.queue in (loss.queue, loss.target) and loss.reason == (event.reason or "")
            if here and loss.fate in _FATES[event.event]:
                return loss.rule
    return None


def told(rule: Rule) -> str:
    """Say the rule, its setting, and what that hides."""
    return f"{rule}; {hidden(rule.setting)}" if rule.setting is not None and rule.setting.hidden else str(rule)


def hidden(setting: Setting) -> str:
    """Say which values a setting hides."""
    return "it hides " + ", ".join(f"{value} by {origin}" for value, origin in setting.hidden)


def assumptions(search: Finder) -> Iterator[str]:
    """Yield what ``lossless`` takes for granted, in sentences: consumers discard nothing where it would be gone."""
    if search.property.name != "lossless" or search.discards:
        return
    for vhost, flow in search.flows.items():
        queues, _ = reached(flow, [each for each in search.publishes if each.vhost == vhost])
        for name in sorted(queues & flow.topology.queues.keys()):
            if not flow.is_stream(name) and not flow.settings(name).dead_letters:
                where = "" if vhost == "/" else f" of virtual host '{vhost}'"
                yield f"nobody rejects for good in '{name}'{where}, which has no dead-letter exchange"
