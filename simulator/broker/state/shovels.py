"""Dynamic shovels of a virtual host."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from dlx.shovels import ShovelDefinition, read_shovel

if TYPE_CHECKING:
    from simulator.broker.state.clients import Channel


@dataclass(slots=True, eq=False, repr=False)
class Shovel:
    """A shovel. ``value`` is its parameter.

    ``source`` and ``destination`` are its channels while it runs; ``state`` is as RabbitMQ names it, and ``reason``
    says why it has terminated. ``since_us``: when it came into its state; ``left``: how many messages until it ends;
    ``forwarded``: how many it has published since it started; ``refused``: delivery tags of messages that the
    destination has refused, which go back a little later; ``starts_us``: when it connects again; ``restarted``:
    whether it has failed once, and was started again at once.
    """

    vhost: str
    name: str
    value: dict[str, Any]
    state: Literal["starting", "running", "terminated"] = "starting"
    reason: str = ""
    since_us: int = 0
    source: Channel | None = None
    destination: Channel | None = None
    queue: str = ""
    left: int | None = None
    refused: list[int] = field(default_factory=list)
    forwarded: int = 0
    starts_us: int | None = None
    restarted: bool = False

    @property
    def definition(self) -> ShovelDefinition:
        """What the parameter says."""
        return read_shovel(self.value)
