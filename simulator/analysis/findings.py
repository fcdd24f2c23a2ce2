"""What an answer says to a user: what is wrong with which object, which setting does it, and what to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from simulator.definitions import Place
from simulator.scenario import steps
from simulator.scenario.steps import History

Severity = Literal["error", "warning", "note"]
"""``error``: messages are lost, or held for ever. ``warning``: they may be, or a setting does not do what it says.

``note``: to know.
"""

SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")

Basis = Literal["", "seen", "follows", "assumed"]
"""What a finding rests on, where a recording shows what clients did.

``seen``: it happened. ``follows``: clients did all that it takes. ``assumed``: they were not seen to do that. Empty
without a recording.
"""
BASES: tuple[Basis, ...] = ("", "seen", "follows", "assumed")


class Change(msgspec.Struct, frozen=True):
    """One change to definitions: an item for a section, ``policies`` (in place of that of its name) or ``bindings``."""

    section: str
    item: Mapping[str, Any]


class Fix(msgspec.Struct, frozen=True, omit_defaults=True):
    """What to do about a finding.

    ``safe``: it can be done on the live broker and loses nothing, as setting a policy is. A queue's argument is
    not safe to change, because the queue has to be deleted and declared again. ``changes``: the same as data; none
    where somebody has to choose.
    """

    safe: bool
    text: str
    changes: tuple[Change, ...] = ()

    def __str__(self) -> str:
        return self.text if self.safe else f"{self.text} (not while messages are in it)"


class ObjectName(msgspec.Struct, frozen=True, order=True):
    """An object of the definitions: its kind (``queue``, ``exchange``, ``policy``, ...), virtual host and name."""

    kind: str
    vhost: str
    name: str

    def __str__(self) -> str:
        if self.kind == "vhost":
            return f"virtual host '{self.name}'"
        where = "" if self.vhost in ("", "/") else f" in virtual host '{self.vhost}'"
        name = self.name if self.kind == "binding" else f"'{self.name}'"  # that of a binding may have quotes
        return f"{self.kind} {name}{where}"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One finding about one object.

    Attributes:
        code, name: the rule, as ``DLX001`` and ``missing-dlx``; neither is ever used for another rule.
        severity: ``error`` only where ``history`` loses a message or leaves it held for ever, takes no flood of them,
            and publishes none straight to an exchange for dead letters with a key that no dead letter has.
        about: the object.
        message: what is wrong, in a sentence.
        because: the deciding rule: an argument, policy, operator policy, server default, or the release's behaviour.
        fix: what to do.
        history: the steps that show it on a broker; empty where no message is lost.
        some_keys: whether it is only about messages with some routing keys, which publishers may not use.
        held: whether these steps leave the message held in its queue for ever, rather than lose it.
        refusal: whether it says that a server refuses the object.
        place: where the object stands, if that is known.
        shape: the same for findings that are equal up to names, and refusals up to values; empty where nobody compared
            them.
        basis, basis_text: what it rests on where there is a recording, and in a phrase what the recording has.
        lost, story: where a recording saw the loss, how many messages were lost, by the reason of their death, and what
            happened to the first of them, in sentences.
        declared_by: the tests that declared the object, where tests did.
    """

    code: str
    name: str
    severity: Severity
    about: ObjectName
    message: str
    because: str
    fix: Fix
    history: History = ()
    some_keys: bool = False
    held: bool = False
    refusal: bool = False
    place: Place | None = None
    shape: str = ""
    basis: Basis = ""
    basis_text: str = ""
    lost: Mapping[str, int] = {}
    story: tuple[str, ...] = ()
    declared_by: tuple[str, ...] = ()

    @property
    def needs(self) -> str:
        """What has to happen for the loss that the history shows, in a phrase; empty without one."""
        return what_it_takes(self.history)

    def as_json(self) -> dict[str, Any]:
        """Return the finding as plain JSON values, with ``kind``, ``vhost`` and ``object`` of what it is about."""
        return {
            "code": self.code,
            "name": self.name,
            "severity": self.severity,
            "kind": self.about.kind,
            "vhost": self.about.vhost,
            "object": self.about.name,
            "message": self.message,
            "because": self.because,
            "fix": msgspec.to_builtins(self.fix),
            "history": steps.to_builtins(self.history),
            **({"held": True} if self.held else {}),
            "place": msgspec.to_builtins(self.place),
            "needs": self.needs,
            "shape": self.shape,
            **({"basis": self.basis, "basis_text": self.basis_text} if self.basis else {}),
            **({"lost": self.lost, "story": self.story} if self.lost else {}),
            **({"declared_by": self.declared_by} if self.declared_by else {}),
        }


def few(names: Sequence[str], most: int = 3) -> str:
    """Return names for a sentence: the first few, and how many more there are."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def actions_in(history: History) -> Counter[str]:
    """Return how often the history does each kind of step, its ``bytes`` in all, and how many ``ms`` pass."""
    found: Counter[str] = Counter()
    for step in history:
        if isinstance(step, steps.Repeat):
            found.update({kind: step.times * count for kind, count in actions_in(step.steps).items()})
        elif isinstance(step, steps.Wait):
            found["ms"] += step.ms
        else:
            times = getattr(step, "times", 1)
            found[type(step).__name__] += times
            found["bytes"] += times * getattr(step, "body_bytes", 0)
    return found


def what_it_takes(history: History) -> str:
    """Say in a phrase what has to happen for the history, the rarest thing last; nothing for an empty one."""
    did = actions_in(history)
    messages = did["Publish"]
    which = "one message" if messages == 1 else "messages"
    returns = did["Crash"] + did["Requeue"]
    said = []
    if did["Reject"]:
        said.append(f"a consumer that rejects {which if did['Reject'] == messages else _times(did['Reject'])}")
    if did["ms"]:
        said.append(f"{did['ms']:,} ms to pass")
    if returns:
        does = "crashes" if did["Crash"] else "returns messages"
        said.append(f"a consumer that {does} {_times(returns)}" + (" on one message" if messages == 1 else ""))
    if messages > 1:
        size = f" of {did['bytes']:,} bytes in all" if did["bytes"] else ""
        said.append(f"{messages:,} waiting messages{size}")
    if history and not said:
        said.append("one message")
    return " and ".join(said)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"
