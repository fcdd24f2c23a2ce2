"""Reports a failure to people: the history in words, as a test to run and as a picture, and the message's life."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple, get_args

from dlx import field_values
from dlx.releases import DEFAULT
from simulator.bootstrap import DefinitionsSource
from simulator.broker import OperatorError
from simulator.events import Happened
from simulator.message_history import MessageHistory
from simulator.pictures.mermaid import sequence_as_mermaid as as_mermaid
from simulator.scenario import steps
from simulator.scenario.player import Player
from simulator.scenario.properties.property import PropertyBroken
from simulator.scenario.properties.property_registry import BUILT_IN, Maker, made
from simulator.scenario.steps import AnyStep, History, in_words


def events_of(definitions: DefinitionsSource, history: History, release: str, broken: BaseException) -> list[Happened]:
    """Return the events of the message that the failure is about, up to the end of the history.

    If it is about none, return those of the message that something happened to last.
    """
    player, about = Player(definitions, release=release), _about(broken)
    found: list[Happened] = []
    for step in history:
        try:
            player.do(step)
        except OperatorError:
            continue
        found += [each for each, _ in player.events if about in (None, (each.vhost, each.uid))]
    return [each for each in found if (each.vhost, each.uid) == (found[-1].vhost, found[-1].uid)]


def _about(broken: BaseException) -> tuple[str | None, int] | None:
    """Return the message that a failure is about."""
    if not isinstance(broken, PropertyBroken) or broken.uid is None:
        return None
    return broken.vhost, broken.uid


def life(events: Sequence[Happened]) -> list[str]:
    """Return the life of a message in sentences, each with the time since the one before. Repetitions appear once."""
    if not events:
        return []
    return MessageHistory(uid=events[0].uid, vhost=events[0].vhost, events=list(events)).story()


# The history as code


def as_test(
    definitions: DefinitionsSource,
    history: History,
    release: str,
    broken: BaseException,
    properties: Sequence[InCode] | None = None,
) -> str:
    """Return the history as a pytest test that fails as long as the property is broken.

    ``properties`` are those to look at: the one that is broken, if it is a built-in one. Without any, a comment says
    what failed after the history.
    """
    where = os.fspath(definitions) if isinstance(definitions, (str, os.PathLike)) else dict(definitions)
    name = broken.property if isinstance(broken, PropertyBroken) else type(broken).__name__
    properties = built_in(name) if properties is None else properties
    looked_at = f", properties=[{', '.join(each.text for each in properties)}]" if properties else ""
    calls = [_call(step) for step in history]
    lines = [
        *_imports(f"Trial({where!r})\n{''.join(calls)}"),
        *dict.fromkeys(each.before for each in properties if each.before),
        "",
        "",
        f"def test_{_NOT_IN_NAMES.sub('_', name)}() -> None:",
        f"    trial = Trial({where!r}, release={release!r}{looked_at})",
        *(f"    {call}" for call in calls),
        *([] if properties else ["    # Assert here what failed:", f"    # {' '.join(_told(broken).splitlines())}"]),
    ]
    return "\n".join(lines) + "\n"


_NOT_IN_NAMES = re.compile(r"\W", re.ASCII)
_MODULES = {
    "Policy": "dlx",
    **dict.fromkeys(field_values.__all__, "dlx.field_values"),
    "Trial": "simulator.testing",
    **{step.__name__: "simulator.scenario.steps" for step in get_args(AnyStep)},
}
"""Where the names are from that code of a history may have."""


def _imports(code: str) -> list[str]:
    """Return the imports of the names that the code calls."""
    called = {name for name in re.findall(r"\b([A-Z]\w+)\(", code) if name in _MODULES}
    modules = sorted({_MODULES[name] for name in called})
    return [f"from {each} import {', '.join(sorted(n for n in called if _MODULES[n] == each))}" for each in modules]


def _call(step: AnyStep) -> str:
    """Return a step as a call of the method of ``Trial`` that does it; its arguments are in the form of ``repr``."""
    if isinstance(step, steps.Repeat):
        return f"trial.repeat({', '.join(map(repr, (step.times, *step.steps)))})"
    tag = str(type(step).__struct_config__.tag)
    return f"trial.{tag.replace('-', '_')}{repr(step).removeprefix(type(step).__name__)}"


# All of it


def explained(
    definitions: DefinitionsSource,
    history: History,
    broken: BaseException,
    *,
    release: str = DEFAULT,
    command: str = "",
    events: Sequence[Happened] | None = None,
    properties: Sequence[InCode] | None = None,
    heading: str = "The shortest history found",
) -> str:
    """Return the whole report as plain text.

    Args:
        definitions: those that the history was found with.
        history: the steps.
        broken: what is broken, or another failure at the end of the history.
        release: the RabbitMQ release.
        command: the command that plays the history again.
        events: those of the message that it is about, if they are known.
        properties: as for ``as_test``.
        heading: what the history is.
    """
    events = events_of(definitions, history, release, broken) if events is None else events
    whose = "the last message" if _about(broken) is None else "that message"
    code = as_test(definitions, history, release, broken, properties)
    parts = [
        _told(broken),
        _section(heading, in_words(history)),
        _section(f"What happened to {whose}", life(events)),
        _section("As a test", code.splitlines()),
        _section("As a picture (Mermaid)", as_mermaid(events).splitlines() if events else []),
        _section("Again", command.split("\n") if command else []),
    ]
    return "\n\n".join(part for part in parts if part)


def _told(broken: BaseException) -> str:
    """Return the failure in one line; the further lines that pytest adds to an assertion are left out."""
    if isinstance(broken, PropertyBroken):
        return str(broken)
    return f"{type(broken).__name__}: {str(broken).partition(chr(10))[0]}"


def _section(title: str, lines: Iterable[str]) -> str:
    body = "\n".join(f"    {line}".rstrip() for line in lines)
    return f"{title}:\n\n{body}" if body else ""


# Writes a property in the code of a test: its expression, and the import that the expression needs.


class InCode(NamedTuple):
    """An expression for a property, and the line before it: an import, or a comment where there can be none."""

    text: str
    before: str = ""


def built_in(name: str) -> list[InCode]:
    """Return a built-in property by name; an empty list if it does not exist."""
    return [InCode(repr(name))] if name in BUILT_IN else []


def in_code(machine: type, makers: Sequence[Maker], name: str) -> list[InCode]:
    """Return the properties of that name among those that the machine's attribute ``properties`` makes."""
    found = []
    for index, maker in enumerate(makers):
        property = made(maker)
        if property.name != name:
            continue
        if isinstance(maker, str):
            found.append(InCode(repr(maker)))
        elif maker is type(property):
            found.append(_of(maker, "()"))
        else:  # only the machine knows with which arguments
            found.append(_of(machine, f".properties[{index}]()"))
    return found or built_in(name)


def _of(cls: type, rest: str) -> InCode:
    if "<locals>" in cls.__qualname__ or cls.__module__ == "__main__":
        return InCode(f"{cls.__name__}{rest}", f"# {cls.__name__}: put this test where the class is defined")
    outermost = cls.__qualname__.partition(".")[0]
    return InCode(f"{cls.__qualname__}{rest}", f"from {cls.__module__} import {outermost}")
