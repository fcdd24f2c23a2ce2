"""What an answer tells a person: what is wrong with which object, which setting does it, and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from simulator.scenario import steps
from simulator.scenario.steps import History

Severity = Literal["error", "warning", "note"]
"""``error``: messages are lost. ``warning``: they may be, or a setting does not do what it says. ``note``: to know."""

SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")


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
        where = "" if self.vhost in ("", "/") else f" in virtual host '{self.vhost}'"
        return f"{self.kind} '{self.name}'{where}"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One finding about one object.

    Attributes:
        code, name: the rule, as ``DLX001`` and ``missing-dlx``; neither is ever used for another rule.
        severity: ``error`` only where ``history`` loses a message.
        about: the object.
        message: what is wrong, in a sentence.
        because: the deciding rule: an argument, policy, operator policy, server default, or the release's behaviour.
        fix: what to do.
        history: the steps that show it on a broker; empty where no message is lost.
    """

    code: str
    name: str
    severity: Severity
    about: ObjectName
    message: str
    because: str
    fix: Fix
    history: History = ()

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
        }
