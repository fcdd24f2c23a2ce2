"""Names what is behind a finding: the deciding rule with its setting, what that hides, and what was assumed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dlx.deaths import MAXLEN
from dlx.possible_deaths import Rule
from dlx.settings import Setting
from simulator.events import Event
from simulator.json_values import plain
from simulator.questions.losses import REFUSED, REMOVED, Loss
from simulator.questions.reachability import reached
from simulator.scenario.properties.property import Cause, PropertyBroken
from simulator.testing.search.counterexample import Finder

_FATES = {
    Event.CYCLE_DROPPED.value: ("cycle",),
    Event.UNROUTABLE.value: ("unroutable",),
    Event.PURGED.value: (REMOVED,),
    Event.DROPPED.value: ("no dead-letter exchange", "dead-letter exchange missing", "lost in a stream", REFUSED),
}


def deciding_rule(search: Finder, broken: PropertyBroken) -> Rule | None:
    """Return the rule by which the message was lost; ``None`` where it was not lost, or no rule fits."""
    return next((loss.rule for loss in search.possible_losses if is_cause(broken.cause, loss)), None)


def is_cause(cause: Cause, loss: Loss) -> bool:
    """Tell whether a loss that the rules make possible is what was found."""
    if cause.vhost != loss.vhost or loss.fate not in _FATES.get(cause.what, ()):
        return False
    if loss.fate == REFUSED:  # the copy dies where it is refused, of the length limit
        return (cause.queue, cause.reason) == (loss.target, MAXLEN)
    return cause.queue in (loss.queue, loss.target) and (cause.reason or "") == loss.reason


def told(rule: Rule) -> str:
    """Say the rule, its setting, and what that hides."""
    return f"{rule}; {hidden(rule.setting)}" if rule.setting is not None and rule.setting.hidden else str(rule)


def as_json(setting: Setting) -> dict[str, Any]:
    """Return a setting with its origin and what it hides."""
    hides = [{"value": plain(value), "origin": str(origin)} for value, origin in setting.hidden]
    return {"key": setting.key, "value": plain(setting.value), "origin": str(setting.origin), "hidden": hides}


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
