"""What clients do, as far as a project states it: who consumes and how consumers fail, what is published and how.

Questions about losses ask it, with the name of the line that says so, such as ``clients.on_failure``. What nobody
states stays open: a consumer may be there or not, and may do what it likes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal, NamedTuple

import msgspec

from dlx.deaths import DELIVERY_LIMIT, REJECTED
from dlx.nearest_names import suggestion
from dlx.settings import Settings
from dlx.topology import CLASSIC, Topology

Failure = Literal["reject", "requeue", "crash"]
"""What a consumer does with a message that it cannot process."""
_NAMED_MAX = 3
FAILURES: tuple[Failure, ...] = ("reject", "requeue", "crash")
_Text = Annotated[str, msgspec.Meta(min_length=1)]
_DOES: dict[Failure, str] = {"reject": "reject", "requeue": "requeue", "crash": "crash on"}


class QueueClients(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One ``[[clients.queue]]``: what clients do with some queues, in place of what they do with all.

    Attributes:
        name, vhost: patterns of the names of queues, and of virtual hosts; ``*`` and ``?`` stand for any characters.
        consumers: whether a queue always has a consumer, or none ever.
        on_failure: what its consumers do with what they cannot process; nothing stands for acknowledging all.
        declare_before_publish: whether publishers declare a queue each time before they publish to it.
    """

    name: _Text
    vhost: str = "*"
    consumers: Literal["always", "none"] | None = None
    on_failure: tuple[Failure, ...] | None = None
    declare_before_publish: bool | None = None


class Publishes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One ``[[clients.publish]]``: with which routing keys publishers publish to an exchange.

    Attributes:
        exchange: its name; empty for the default exchange.
        keys: routing keys. In those for a topic exchange, ``*`` and ``#`` stand for words, as in bindings.
        vhost: a pattern of the names of virtual hosts.
        cc: further routing keys that each of these messages carries, in its header CC.
    """

    exchange: str
    keys: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    vhost: str = "*"
    cc: tuple[str, ...] = ()


class Habit(NamedTuple):
    """Whether consumers of a queue do something, and the line that says so."""

    does: bool
    line: str


class Clients(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table ``clients``: what clients do with all queues, and with some.

    Attributes:
        consumers, on_failure, declare_before_publish: as in ``QueueClients``.
        republish_x_death: whether consumers publish a message again with the ``x-death`` that it came with.
        publish: what publishers publish, and nothing else; anything if there is no such line.
        queue: what they do with some queues; the first line that fits a queue and states something counts.
    """

    consumers: Literal["always", "none"] | None = None
    on_failure: tuple[Failure, ...] | None = None
    declare_before_publish: bool | None = None
    republish_x_death: bool = False
    publish: tuple[Publishes, ...] = ()
    queue: tuple[QueueClients, ...] = ()

    def __bool__(self) -> bool:
        return self != NOTHING_STATED

    def _of(self, field: str, vhost: str, queue: str) -> tuple[Any, str]:
        """Return what is stated of a queue, and the line; ``None`` where nothing is."""
        for place, each in enumerate(self.queue):
            value = getattr(each, field)
            if value is not None and fnmatchcase(queue, each.name) and fnmatchcase(vhost, each.vhost):
                return value, f"clients.queue[{place}].{field}"
        return getattr(self, field), f"clients.{field}"

    def failures(self, vhost: str, queue: str) -> tuple[Failure, ...] | None:
        """Return what consumers of a queue do with what they cannot process; ``None`` where nothing states it."""
        if self._of("consumers", vhost, queue)[0] == "none":
            return ()
        found: tuple[Failure, ...] | None = self._of("on_failure", vhost, queue)[0]
        return found

    def works_on(self, vhost: str, queue: str) -> bool:
        """Return whether a line of its own says that consumers work on a queue: then it is for more than to park."""
        if not self.consumes(vhost, queue):
            return False
        stated = (self._of(field, vhost, queue) for field in ("consumers", "on_failure"))
        return any(value and line.startswith("clients.queue[") for value, line in stated)

    def consumes(self, vhost: str, queue: str) -> bool:
        """Return whether a queue may have consumers."""
        return bool(self._of("consumers", vhost, queue)[0] != "none")

    def habit(self, vhost: str, queue: str, reason: str) -> Habit | None:
        """Return whether consumers let messages die for that reason; ``None`` where it is not theirs, or open."""
        by = {REJECTED: {"reject"}, DELIVERY_LIMIT: {"requeue", "crash"}}.get(reason)
        if by is None:
            return None
        consumers, line = self._of("consumers", vhost, queue)
        if consumers == "none":
            return Habit(False, line)
        failures, line = self._of("on_failure", vhost, queue)
        return None if failures is None else Habit(not by.isdisjoint(failures), line)

    def kept_by(self, vhost: str, settings: Settings, *, published: bool) -> str | None:
        """Return the line by which a queue is never deleted with a message in it; ``None`` where it may be.

        A declaration renews ``x-expires`` of a classic queue, and not of a quorum queue, in any release. So it keeps
        what is ``published`` there, and leaves before the queue expires; nobody declares the queue for a dead letter.
        """
        name = settings.queue.name
        consumers, line = self._of("consumers", vhost, name)
        if consumers == "always" or (consumers == "none" and settings.expires_ms is None):
            return line  # nobody who could be the last one leaves
        declares, line = self._of("declare_before_publish", vhost, name)
        expires_ms, ttl_ms = settings.expires_ms, settings.message_ttl_ms
        leaves_before = expires_ms is not None and ttl_ms is not None and ttl_ms < expires_ms
        return line if declares and published and leaves_before and settings.queue.type == CLASSIC else None

    @property
    def lines(self) -> dict[str, str]:
        """What is stated, in sentences, by the line that states it."""
        found = dict(_stated(self, "clients"))
        if self.republish_x_death:
            found["clients.republish_x_death"] = "consumers publish messages again with their x-death"
        for place, each in enumerate(self.queue):
            where = "" if each.vhost == "*" else f" in virtual host '{each.vhost}'"
            found |= dict(_stated(each, f"clients.queue[{place}]", f"'{each.name}'{where}"))
        if self.publish:
            found["clients.publish"] = f"publishers publish only {' and '.join(map(_published, self.publish))}"
        return found

    def said(self, line: str) -> str:
        """Return the sentence of a line, with its name."""
        return f"{self.lines[line]} ({line})"

    def unknown(self, topologies: Mapping[str, Topology]) -> Iterator[str]:
        """Yield which lines are about queues and exchanges that are not there, with the nearest name."""
        for place, queue in enumerate(self.queue):
            known = _names(topologies, queue.vhost, "queues")
            if not any(fnmatchcase(name, queue.name) for name in known):
                yield f"clients.queue[{place}].name: there is no queue '{queue.name}'{_near(queue.name, known)}"
        absent = False
        for place, each in enumerate(self.publish):
            known = _names(topologies, each.vhost, "exchanges")
            if each.exchange not in known:
                absent = True
                near = _near(each.exchange, known)
                yield f"clients.publish[{place}].exchange: there is no exchange '{each.exchange}'{near}"
        known = {name for name in _names(topologies, "*", "exchanges") if not name.startswith("amq.")}
        stated = {each.exchange for each in self.publish}
        if absent and stated & known and (others := sorted(known - stated - {""})):
            more = f" and {len(others) - _NAMED_MAX} more" if len(others) > _NAMED_MAX else ""
            named = ", ".join(map(repr, others[:_NAMED_MAX]))
            yield f"clients.publish states that nobody publishes to exchange {named}{more}"


def _names(topologies: Mapping[str, Topology], vhost: str, kind: Literal["queues", "exchanges"]) -> set[str]:
    return {name for at, topology in topologies.items() if fnmatchcase(at, vhost) for name in getattr(topology, kind)}


def _published(each: Publishes) -> str:
    copies = f" with CC {', '.join(map(repr, each.cc))}" if each.cc else ""
    return f"{', '.join(map(repr, each.keys))} to exchange '{each.exchange}'{copies}"


def _near(name: str, known: set[str]) -> str:
    return f"; {suggestion(name, known)}" if known else ""


def _stated(of: Clients | QueueClients, prefix: str, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield the lines about queues with their sentences; ``name``: which queues, where it is not all."""
    if of.consumers == "always":
        yield f"{prefix}.consumers", f"{name or 'every queue'} always has a consumer"
    elif of.consumers is not None:
        yield f"{prefix}.consumers", f"nobody consumes from {name or 'any queue'}"
    if of.on_failure is not None:
        does = " or ".join(_DOES[each] for each in FAILURES if each in of.on_failure)
        what = f"{does} what they cannot process, and do nothing else with it" if does else "acknowledge all messages"
        yield f"{prefix}.on_failure", f"consumers{f' of {name}' * bool(name)} {what}"
    if of.declare_before_publish:
        yield (
            f"{prefix}.declare_before_publish",
            f"publishers declare {name or 'a queue'} each time before they publish",
        )


NOTHING_STATED = Clients()
