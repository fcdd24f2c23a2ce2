"""A player whose every action is checked against properties, with a method for each step.

    trial = Trial("definitions.json", release="4.3", properties=["lossless"])
    trial.publish("", "orders")
    trial.crash("orders", times=21)         # raises PropertyBroken if that loses the message

After every action the properties look at what happened; the first that is broken ends
the trial.

The methods that are called like steps refuse names that the definitions never had.
``do`` and ``play`` do not: there such a step does nothing, as one for a queue that is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypedDict, Unpack

from dlx.releases import DEFAULT
from dlx.topology import Policy
from simulator.bootstrap import DefinitionsSource
from simulator.scenario import steps
from simulator.scenario.player import Player, Seen
from simulator.scenario.properties.property import Property, PropertyBroken
from simulator.scenario.properties.property_registry import instances
from simulator.scenario.scenario_errors import unknown_names
from simulator.scenario.steps import AnyStep, History, Properties

ACTIONS_PER_PULSE = 1_000


class PublishFields(TypedDict, total=False):
    """The fields of ``steps.Publish`` that have defaults."""

    headers: Mapping[str, Any]
    expiration_ms: int | None
    body_bytes: int
    times: int
    vhost: str
    properties: Properties | Mapping[str, Any]


class ModifyFields(TypedDict, total=False):
    """The fields of ``steps.Modify`` that are its own."""

    delivery_failed: bool
    undeliverable_here: bool
    annotations: Mapping[str, Any]


class Trial(Player):
    """One run of a topology.

    Attributes:
        broker: the broker; read it, but give it commands through the steps.
        now_us: the time, microseconds since 1970.
        history: the steps so far, the one that broke a property included, without those that were refused.
        events: what happened in the last step.
        properties: what must hold.
        actions: how many actions there were, those of the step that broke a property until then.

    Args:
        definitions: an export of RabbitMQ's definitions, or the path of the file that holds one.
        release: the RabbitMQ release.
        properties: what must hold after every step: names, or instances of ``Property``.
        pulse: called now and then during long steps; what it raises ends them.

    Raises:
        DefinitionsError: the definitions cannot be used.
        ValueError: there is no property of a name that was given, or a property has no name.
        TypeError: something that was given is not a property.
    """

    def __init__(
        self,
        definitions: DefinitionsSource,
        *,
        release: str = DEFAULT,
        properties: Iterable[str | Property] = (),
        pulse: Callable[[], None] = lambda: None,
    ) -> None:
        self.properties = instances(properties)
        self._pulse, self.actions = pulse, 0
        super().__init__(definitions, release=release)

    def do(self, step: AnyStep) -> None:
        """Do one step, and check after each action that all properties hold. Raises ``PropertyBroken``."""
        try:
            super().do(step)
        except PropertyBroken as broken:
            broken.history = tuple(self.history)
            raise

    def acted(self, seen: Sequence[Seen]) -> None:
        """Show the properties what happened in one action."""
        self.actions += 1
        if self.actions % ACTIONS_PER_PULSE == 0:
            self._pulse()
        super().acted(seen)
        for each in self.properties:
            for happened, message in seen:
                try:
                    each.observe(self, happened, message)
                except PropertyBroken as broken:
                    _pass_over(broken, each)
            try:
                each.check(self)
            except PropertyBroken as broken:
                _pass_over(broken, each)

    # Steps, one method each. All raise ``LookupError`` for a name that the definitions never had, and ``ValueError``
    # for a value that a step cannot have.

    def publish(self, exchange: str, routing_key: str, **how: Unpack[PublishFields]) -> None:
        """Publish messages; ``how`` are the other fields of ``steps.Publish``. Raises ``ValueError`` if refused."""
        self._ask("publish", exchange=exchange, routing_key=routing_key, **how)
        if self.refusal:
            self.history.pop()
            raise ValueError(f"publish: {self.refusal}")

    def ack(self, queue: str, times: int = 1, *, vhost: str = "/") -> None:
        """Have the consumer of ``queue`` acknowledge its oldest delivery."""
        self._ask("ack", queue=queue, times=times, vhost=vhost)

    def reject(self, queue: str, times: int = 1, *, vhost: str = "/") -> None:
        """Have the consumer of ``queue`` reject its oldest delivery for good."""
        self._ask("reject", queue=queue, times=times, vhost=vhost)

    def requeue(
        self, queue: str, times: int = 1, *, method: Literal["reject", "nack"] = "reject", vhost: str = "/"
    ) -> None:
        """Have the consumer of ``queue`` return its oldest delivery to the queue, by ``reject`` or ``nack``."""
        self._ask("requeue", queue=queue, times=times, method=method, vhost=vhost)

    def modify(self, queue: str, times: int = 1, *, vhost: str = "/", **how: Unpack[ModifyFields]) -> None:
        """Have the consumer of ``queue`` settle its oldest delivery as ``modified``, an outcome of AMQP 1.0.

        ``how`` are the other fields of ``steps.Modify``. Raises ``OperatorError`` on a release before 4.0.
        """
        self._ask("modify", queue=queue, times=times, vhost=vhost, **how)

    def crash(self, queue: str, times: int = 1, *, vhost: str = "/") -> None:
        """Let the consumer of ``queue`` die with its delivery."""
        self._ask("crash", queue=queue, times=times, vhost=vhost)

    def hold(self, queue: str, times: int = 1, *, vhost: str = "/") -> None:
        """Have a consumer of ``queue`` take up to ``times`` messages and keep them."""
        self._ask("hold", queue=queue, times=times, vhost=vhost)

    def get(self, queue: str, times: int = 1, *, vhost: str = "/") -> None:
        """Have a client take a message of ``queue`` by ``basic.get``, and keep it."""
        self._ask("get", queue=queue, times=times, vhost=vhost)

    def leave(self, queue: str, *, vhost: str = "/") -> None:
        """Have the consumer of ``queue`` close its connection."""
        self._ask("leave", queue=queue, vhost=vhost)

    def wait(self, ms: int) -> None:
        """Let time pass."""
        self._ask("wait", ms=ms)

    def set_policy(self, policy: Policy, *, operator: bool = False, vhost: str = "/") -> None:
        """Set a policy, as an operator does. Raises ``OperatorError`` for one that RabbitMQ refuses."""
        self._ask("set-policy", policy=policy, operator=operator, vhost=vhost)

    def clear_policy(self, name: str, *, operator: bool = False, vhost: str = "/") -> None:
        """Remove a policy, as an operator does. Raises ``OperatorError`` if there is no policy of that name."""
        self._ask("clear-policy", name=name, operator=operator, vhost=vhost)

    def repeat(self, times: int, *what: AnyStep) -> None:
        """Do the same steps ``times`` times."""
        self._ask("repeat", steps=tuple(map(steps.checked, what)), times=times)

    def _ask(self, do: str, **fields: Any) -> None:
        step = steps.made(do, **fields)
        if unknown_names([step], self.topologies()):
            self._refuse_unknown([step])
        self.do(step)

    def _refuse_unknown(self, history: Iterable[AnyStep]) -> None:
        """Raise ``LookupError`` for names that were not there at the beginning either."""
        unknown = unknown_names(history, Player(self.definitions, release=self.release).topologies())
        if unknown:
            raise LookupError("; ".join(unknown))


def _pass_over(broken: PropertyBroken, by: Property) -> None:
    """Raise what is broken, unless the property knows the cause already."""
    if broken.cause not in by.known:
        raise broken


def replay(
    definitions: DefinitionsSource,
    history: History,
    *,
    release: str = DEFAULT,
    properties: Iterable[str | Property] = (),
) -> Trial:
    """Play a whole history, and return the trial.

    Raises:
        PropertyBroken: a property does not hold.
        LookupError: the history names a queue, an exchange or a virtual host that the definitions do not have.
    """
    trial = Trial(definitions, release=release, properties=properties)
    unknown = unknown_names(history, trial.topologies())
    if unknown:
        raise LookupError("; ".join(unknown))
    trial.play(history)
    return trial
