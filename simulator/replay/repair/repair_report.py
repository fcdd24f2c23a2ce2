"""The result of a repair of a log: the hypotheses, what they explain, and an example with the rows around it."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from simulator.replay.repair.hypotheses import Kind, Part


class ShownRow(msgspec.Struct, frozen=True):
    """A row of the log, as it is shown beside a hypothesis.

    ``role`` is ``before``, ``in question`` or ``after``; ``deaths`` is ``x-death`` in words.
    """

    role: str
    file: str
    line: int
    time_us: int
    event: str
    queue: str | None
    exchange: str
    routing_keys: tuple[str, ...]
    deaths: str

    @property
    def where(self) -> str:
        """What happened, and where: a publish, or a delivery from a queue."""
        return "published" if self.queue is None else f"delivered from '{self.queue}'"

    @property
    def address(self) -> str:
        """The exchange and the routing keys."""
        exchange = f"exchange '{self.exchange}'" if self.exchange else "the default exchange"
        return f"{exchange}, {', '.join(map(repr, self.routing_keys))}"

    @property
    def moment(self) -> str:
        """When it was written, UTC."""
        at = datetime.fromtimestamp(self.time_us // 1_000 / 1_000, UTC)
        return f"{at:%Y-%m-%d %H:%M:%S.%f}"[:-3]


class Likely(msgspec.Struct, frozen=True):
    """One hypothesis.

    Attributes:
        kind: what sort of thing happened (``hypotheses.COSTS``).
        cost: how much has to be assumed; the cheapest is the likeliest.
        text: what may have happened, and what to check.
        queue, exchange, routing_keys: of an unseen publish, where it went.
        headers: of forged headers, those that a client wrote or left out.
        changes: of other definitions, what they said otherwise.
        after_us, by_us: the bounds of the moment at which the definitions changed, where the log tells.
    """

    kind: Kind
    cost: float
    text: str
    queue: str | None = None
    exchange: str | None = None
    routing_keys: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()
    changes: tuple[Part, ...] = ()
    after_us: int | None = None
    by_us: int | None = None


class Repair(msgspec.Struct, frozen=True):
    """Deliveries that the same hypotheses explain.

    Attributes:
        likely: the likeliest first. If there are several, the trace cannot tell which is right.
        deliveries, messages: how many they explain.
        vhost, message: the virtual host, and an example.
        rows: the row in question of the example, and the rows of that message before and after it.
    """

    likely: tuple[Likely, ...]
    deliveries: int
    messages: int
    vhost: str
    message: str
    rows: tuple[ShownRow, ...]


class Repairs(msgspec.Struct, frozen=True):
    """What may be behind the deliveries of a log that are not as predicted.

    Attributes:
        found: the hypotheses that explain most deliveries first.
        unexplained: how many deliveries no hypothesis explains.
        left_out: how many messages were not looked at.
    """

    found: tuple[Repair, ...] = ()
    unexplained: int = 0
    left_out: int = 0


NO_REPAIRS = Repairs()
