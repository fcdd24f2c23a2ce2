"""The base of everything that a trial checks, and the error that says that it does not hold."""

from __future__ import annotations

import re
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, NamedTuple

from dlx.message import Message
from simulator.events import Happened

if TYPE_CHECKING:
    from simulator.scenario.steps import History
    from simulator.scenario.trial import Trial


class FindingCause(NamedTuple):
    """What makes two findings the same one: where it happened, the reason of death, and what became of the message."""

    property: str
    vhost: str | None
    queue: str | None
    reason: str | None
    what: str


class PropertyBroken(AssertionError):
    """A property does not hold.

    Attributes:
        property: its name.
        why: what happened, in a sentence.
        vhost, uid: the message it happened to; ``None`` when no single message is concerned.
        event: the event that broke it, if it was one.
        history: the steps that led to it; the trial sets them.
    """

    history: History = ()

    def __init__(
        self,
        property: str,
        why: str,
        *,
        vhost: str | None = None,
        uid: int | None = None,
        event: Happened | None = None,
    ) -> None:
        super().__init__(f"{property} is broken: {why}")
        self.property, self.why, self.vhost, self.uid, self.event = property, why, vhost, uid, event

    @property
    def cause(self) -> FindingCause:
        """What makes another finding the same one."""
        if self.event is None:
            return FindingCause(self.property, self.vhost, None, None, re.sub(r"\d+", "n", self.why))
        return FindingCause(self.property, self.vhost, self.event.queue, self.event.reason, self.event.event.value)

    def copy(self) -> PropertyBroken:
        """Return the same error, to be raised again."""
        again = PropertyBroken(self.property, self.why, vhost=self.vhost, uid=self.uid, event=self.event)
        again.history = self.history
        return again


class Property:
    """Something that must hold during a trial. ``observe`` sees every event; ``check`` is called after every action.

    Write a property of your own as a subclass, and raise ``self.broken(...)`` where it does not hold.

    Attributes:
        name: its name.
        promise: what holds after every history that keeps the property, as a clause.
        expirations_ms: the expirations that publishers set when this is tried; ``None`` stands for no expiration.
        policies_change: whether it may be asked for while operators change policies.
        known: causes that a trial passes over, since they were found before.
    """

    name = ""
    promise = ""
    expirations_ms: tuple[int | None, ...] = (None,)
    policies_change = True
    known: AbstractSet[FindingCause] = frozenset()

    def observe(self, trial: Trial, event: Happened, message: Message) -> None:
        """Look at one event; ``message`` is as it was then. Raises ``PropertyBroken``."""

    def check(self, trial: Trial) -> None:
        """Look at the trial after an action. Raises ``PropertyBroken``."""

    def broken(
        self, why: str, event: Happened | None = None, *, vhost: str | None = None, uid: int | None = None
    ) -> PropertyBroken:
        """Return the error to raise: ``why`` in a sentence, and the message it is about, if not by its event."""
        if event is not None:
            vhost, uid = event.vhost, event.uid
        return PropertyBroken(self.name, why, vhost=vhost, uid=uid, event=event)
