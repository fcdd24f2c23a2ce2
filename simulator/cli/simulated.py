"""Prints the trace of a scenario for people: what happened to messages, what was refused, and what is left."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from simulator.cli.tables import show
from simulator.cli.times_of_column import column_of_times
from simulator.events import LOSSES

_REFUSED = 400
_LISTED_MAX = 8
_WHY_MAX = 100


def show_trace(console: Console, trace: Mapping[str, Any]) -> None:
    """Print the trace of any system; what only some have is printed where there is some of it."""
    events = trace.get("events", [])
    if events:
        show(console, ("time", "message", "event", "queue", "why"), _events(events))
    else:
        console.print("nothing happened to any message")
    left = list(_left(trace.get("queues", {})))
    if left:
        console.print()
        show(console, ("queue", "left", "messages"), left)
    for remark in _remarks(trace):
        console.print()
        console.print(Text(remark), soft_wrap=True)


def _events(events: Sequence[Mapping[str, Any]]) -> Iterator[Sequence[str | Text]]:
    time = column_of_times(event["time_ms"] for event in events)
    for event in events:
        kind = Text(event["event"], "bold red" if event["event"] in LOSSES else "")
        why = ", ".join(str(event[name]) for name in ("reason", "detail") if event.get(name))
        why = why if len(why) <= _WHY_MAX else f"{why[:_WHY_MAX]} … (--json has all)"
        yield time(event["time_ms"]), str(event.get("message", "")), kind, str(event.get("queue") or ""), why


def _left(queues: Mapping[str, Any]) -> Iterator[Sequence[str]]:
    for queue, content in queues.items():
        messages = content.get("messages", []) if isinstance(content, Mapping) else content
        names = [str(each.get("message", "?")) for each in messages]
        more = f" and {len(names) - _LISTED_MAX} more" if len(names) > _LISTED_MAX else ""
        yield queue, str(len(names)), ", ".join(names[:_LISTED_MAX]) + more


def _remarks(trace: Mapping[str, Any]) -> Iterator[str]:
    answers = trace.get("answers", [])
    refused = [each for each in answers if each.get("status", 0) >= _REFUSED]
    for each in refused:
        status, words = str(each["status"]), _words(each.get("document") or each.get("body"))
        yield f"step {each['step']} was refused: {status} {words.removeprefix(f'{status} ')}"
    for warning in trace.get("warnings", []):
        yield f"warning: {_words(warning)}"
    for name, what in (("refused_publishes", "publishes were refused"), ("exceptions", "exceptions were thrown")):
        if trace.get(name):
            yield f"{len(trace[name])} {what}; --json has them"


def _words(value: Any) -> str:
    if isinstance(value, Mapping):
        return ": ".join(str(value[name]) for name in ("title", "description", "msg", "text") if value.get(name))
    return str(value)
