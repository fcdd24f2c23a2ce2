"""Random commands of several clients and operators, with time passing: nothing is lost, miscounted or left undone.

A restored snapshot runs beside the broker that it was taken of and must give the same events.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from dlx.operator_errors import OperatorError
from dlx.releases import RELEASES
from dlx.topology import Policy
from simulator.broker import Broker, agenda, commands
from simulator.broker.replies import Delivered
from simulator.events import Event
from tests.broker.invariants import Ledger, check

START_US = 1_700_000_000_000_000
MS = 1_000
COMMANDS = 250
SEEDS = range(3)

_QUEUES = ["a", "b", "c", "d", "e"]
_KINDS = ("classic", "classic", "quorum", "quorum", "stream")
_EXCHANGES = ["", "amq.fanout", "amq.topic", "amq.direct", "x", "y"]
_CLIENTS = ["one", "two", "three"]
_CANCEL_NOTIFY = {"capabilities": {"consumer_cancel_notify": True}}
_PROPERTIES: list[dict[str, Any]] = [
    {},
    {"expiration": "700"},
    {"expiration": "0"},
    {"expiration": "5000", "delivery_mode": 2},
    {"priority": 7},
    {"priority": 1, "expiration": "40000"},
    {"headers": {"CC": ["a", "b"], "BCC": ["c"]}},
    {"headers": {"x-death": [{"queue": "a", "reason": "rejected", "count": "many"}]}},
    {"reply_to": "amq.rabbitmq.reply-to"},
]
_TIMES_MS = [*[0] * 30, *[1, 50, 400] * 3, 1_000, 2_500, 61_000, 181_000, 1_900_000]


class Players:
    """Draws commands that make sense of a broker as it is, most of the time."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.draws: list[tuple[int, Callable[[Broker], commands.Command]]] = [
            (40, self._publish), (10, self._consume), (8, self._get), (35, self._settle), (2, self._cancel),
            (4, self._qos), (12, self._declare), (2, self._delete_queue), (2, self._purge), (4, self._bind),
            (1, self._unbind), (2, self._declare_exchange), (1, self._delete_exchange), (3, self._transact),
            (1, self._confirm), (4, self._open), (2, self._close), (3, self._flow), (5, self._policy),
            (3, self._clear_policy), (2, self._operate), (6, self._pass_time),
        ]  # fmt: skip

    def command(self, broker: Broker) -> commands.Command:
        """The next command."""
        if len(broker.channels) < 2 and self._chance(0.9):
            return self._open(broker)
        if len(broker.vhosts["/"].queues) < 4 and self._chance(0.3):
            return self._declare(broker)
        weights = [weight for weight, _ in self.draws]
        return self.random.choices(self.draws, weights)[0][1](broker)

    def wait_ms(self) -> int:
        """How long it takes to come."""
        return self.random.choice(_TIMES_MS)

    def _chance(self, of: float = 0.5) -> bool:
        return self.random.random() < of

    def _channel(self, broker: Broker) -> Any:
        if broker.channels and self._chance(0.997):
            return self.random.choice(list(broker.channels))
        return self.random.choice(_CLIENTS), self.random.randint(1, 2)

    def _queue(self, broker: Broker, *kinds: str) -> str:
        """The name of a queue that exists, and is of one of these kinds; mostly."""
        existing = broker.vhosts["/"].queues
        known = [name for name in _QUEUES if name in existing and existing[name].definition.type in (kinds or _KINDS)]
        return self.random.choice(known if known and self._chance(0.99) else _QUEUES)

    def _exchange(self, broker: Broker) -> str:
        known = [name for name in _EXCHANGES if name in broker.vhosts["/"].exchanges]
        return self.random.choice(known if self._chance(0.98) else _EXCHANGES)

    def _tag(self, broker: Broker, channel: Any) -> int:
        known = broker.channels.get(channel)
        tags = list(known.unacked) if known is not None else []
        return self.random.choice(tags) if tags and self._chance(0.99) else 0

    def _settle(self, broker: Broker) -> commands.Command:
        """An acknowledgement of any kind, where there is anything to acknowledge."""
        busy = [channel.id for channel in broker.channels.values() if channel.unacked]
        if not busy:
            return self._publish(broker)
        channel = self.random.choice(busy)
        tag, multiple = self._tag(broker, channel), self._chance(0.3)
        kind = self.random.choice(["ack", "ack", "nack", "nack", "reject", "recover"])
        if kind == "ack":
            return commands.Ack(channel, tag, multiple)
        if kind == "nack":
            return commands.Nack(channel, tag, multiple, self._chance(0.6))
        if kind == "reject":
            return commands.Reject(channel, tag, self._chance())
        return commands.Recover(channel, self._chance(0.95))

    # Clients

    def _publish(self, broker: Broker) -> commands.Command:
        exchange = "" if self._chance(0.8) else self._exchange(broker)
        properties = self.random.choice(_PROPERTIES)
        channel = self._channel(broker)
        if "reply_to" in properties and not (channel in broker.channels and broker.channels[channel].reply_consumer):
            properties = {}
        keys = [*(self._queue(broker) for _ in range(6)), "no such queue", *broker.state.reply_keys]
        body = b"m" * self.random.choice([0, 1, 10, 100])
        return commands.Publish(channel, exchange, self.random.choice(keys), properties, body, self._chance(0.2))

    def _consume(self, broker: Broker) -> commands.Command:
        channel, reply = self._channel(broker), self._chance(0.05)
        known = broker.channels.get(channel)
        kinds = _KINDS if known is not None and known.prefetch and self._chance(0.3) else _KINDS[:4]
        queue = "amq.rabbitmq.reply-to" if reply else self._queue(broker, *kinds)
        found = broker.vhosts["/"].queues.get(queue)
        kind = found.definition.type if found is not None else ""
        return commands.Consume(
            channel=channel,
            queue=queue,
            consumer_tag=self.random.choice(
                ["", *(tag for tag in "stu" if known is None or tag not in known.consumers)]
            ),
            no_ack=reply or (kind != "stream" and self._chance(0.15)),
            exclusive=self._chance(0.05),
            arguments=self._consumer_arguments(broker, kind),
        )

    def _consumer_arguments(self, broker: Broker, kind: str) -> dict[str, Any]:
        arguments: dict[str, Any] = {}
        if kind == "stream":
            arguments["x-stream-offset"] = self.random.choice(["first", "next", "last", 3])
        elif self._chance(0.3):
            arguments["x-priority"] = self.random.choice([1, 5, -3])
        if kind == "quorum" and self._chance(0.1) and broker.release.consumer_timeout_enforced_by == "queue":
            arguments["x-consumer-timeout"] = 60_000
        return arguments

    def _get(self, broker: Broker) -> commands.Command:
        return commands.Get(self._channel(broker), self._queue(broker, "classic", "quorum"), self._chance(0.2))

    def _cancel(self, broker: Broker) -> commands.Command:
        channel = self._channel(broker)
        tags = list(broker.channels[channel].consumers) if channel in broker.channels else []
        return commands.Cancel(channel, self.random.choice([*tags, "s"]))

    def _qos(self, broker: Broker) -> commands.Command:
        return commands.Qos(self._channel(broker), self.random.choice([0, 1, 1, 2, 5, 40]), self._chance(0.3))

    def _transact(self, broker: Broker) -> commands.Command:
        open_ones = [channel.id for channel in broker.channels.values() if channel.transactional]
        if not open_ones or self._chance(0.2):
            return commands.SelectTransactions(self._channel(broker))
        kind = commands.Commit if self._chance(0.6) else commands.Rollback
        return kind(self.random.choice(open_ones))

    def _confirm(self, broker: Broker) -> commands.Command:
        return commands.SelectConfirms(self._channel(broker))

    # Connections

    def _open(self, broker: Broker) -> commands.Command:
        client = self.random.choice(_CLIENTS)
        if client not in broker.connections:
            properties = _CANCEL_NOTIFY if self._chance(0.7) else {}
            vhost = self.random.choice(["/", "/", "/", *broker.vhosts])
            return commands.OpenConnection(client, vhost, "guest", client, properties)
        numbers = [number for number in (1, 2) if (client, number) not in broker.channels]
        return commands.OpenChannel((client, numbers[0])) if numbers else commands.PassTime()

    def _close(self, broker: Broker) -> commands.Command:
        if self._chance(0.3):
            return commands.CloseConnection(self.random.choice(_CLIENTS))
        return commands.CloseChannel(self._channel(broker))

    def _flow(self, broker: Broker) -> commands.Command:
        kind = commands.PauseDeliveries if self._chance(0.4) else commands.ResumeDeliveries
        return kind(self.random.choice(_CLIENTS))

    # Declarations

    def _declare(self, broker: Broker) -> commands.Command:
        kind = self.random.choice(_KINDS)
        arguments: dict[str, Any] = {"x-queue-type": kind}
        if kind != "stream":
            self._add_settings(kind, arguments)
        missing = [name for name in _QUEUES if name not in broker.vhosts["/"].queues]
        return commands.DeclareQueue(
            channel=self._channel(broker),
            queue=self.random.choice(missing or _QUEUES),
            passive=self._chance(0.1) or not missing,
            durable=kind != "classic" or self._chance(),
            exclusive=kind == "classic" and self._chance(0.1),
            auto_delete=kind == "classic" and self._chance(0.2),
            arguments=arguments,
        )

    def _add_settings(self, kind: str, arguments: dict[str, Any]) -> None:
        pick = self.random.choice
        if self._chance(0.6):
            arguments["x-dead-letter-exchange"] = pick(["", "", *_EXCHANGES])
            if self._chance(0.8):
                arguments["x-dead-letter-routing-key"] = self.random.choice(_QUEUES)
        options: dict[str, list[Any]] = {
            "x-message-ttl": [0, 100, 1_000, 60_000], "x-expires": [1_000, 30_000, 100_000],
            "x-max-length": [0, 1, 3, 5], "x-max-length-bytes": [0, 50, 1_000, 1_000],
            "x-overflow": ["drop-head", "reject-publish"], "x-single-active-consumer": [True, True],
        }  # fmt: skip
        if kind == "classic":
            options["x-max-priority"] = [1, 5, 10]
            options["x-overflow"] = ["drop-head", "reject-publish", "reject-publish-dlx"]
        else:
            options["x-delivery-limit"] = [0, 1, 3]
            if self._chance(0.3):
                arguments.update({"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"})
        for key, values in options.items():
            if self._chance(0.2):
                arguments.setdefault(key, pick(values))

    def _delete_queue(self, broker: Broker) -> commands.Command:
        return commands.DeleteQueue(self._channel(broker), self._queue(broker))

    def _purge(self, broker: Broker) -> commands.Command:
        return commands.PurgeQueue(self._channel(broker), self._queue(broker, "classic", "quorum"))

    def _binding(self, broker: Broker) -> tuple[Any, str, str, str]:
        exchange = self._exchange(broker) or "amq.fanout"
        return self._channel(broker), self._queue(broker), exchange, self.random.choice([*_QUEUES, "#"])

    def _bind(self, broker: Broker) -> commands.Command:
        channel, queue, exchange, key = self._binding(broker)
        if self._chance(0.2):
            return commands.BindExchange(channel, self._exchange(broker) or "amq.topic", exchange, key)
        return commands.BindQueue(channel, queue, exchange, key)

    def _unbind(self, broker: Broker) -> commands.Command:
        return commands.UnbindQueue(*self._binding(broker))

    def _declare_exchange(self, broker: Broker) -> commands.Command:
        arguments = {"alternate-exchange": self.random.choice(_EXCHANGES[1:])} if self._chance(0.3) else {}
        return commands.DeclareExchange(
            channel=self._channel(broker),
            exchange=self.random.choice(["x", "y"]),
            type=self.random.choice(["fanout", "direct", "topic", "headers"]),
            auto_delete=self._chance(0.3),
            arguments=arguments,
        )

    def _delete_exchange(self, broker: Broker) -> commands.Command:
        return commands.DeleteExchange(self._channel(broker), self.random.choice(["x", "y"]))

    # Operators

    def _policy(self, broker: Broker) -> commands.Command:
        options: dict[str, list[Any]] = {
            "message-ttl": [0, 300, 20_000], "expires": [5_000, 200_000], "max-length": [0, 2, 5, 10],
            "max-length-bytes": [100, 500], "overflow": ["drop-head", "reject-publish"],
            "dead-letter-exchange": _EXCHANGES, "dead-letter-routing-key": _QUEUES, "delivery-limit": [0, 2, 10],
            "dead-letter-strategy": ["at-least-once", "at-most-once"], "delayed-retry-type": ["all", "failed"],
            "delayed-retry-min": [500, 60_000], "consumer-timeout": [60_000, 120_000],
        }  # fmt: skip
        operator = self._chance(0.2)
        if operator:
            options = {key: options[key] for key in ("message-ttl", "expires", "max-length", "max-length-bytes")}
        chosen = self.random.sample(list(options), self.random.randint(1, 4))
        definition = {key: self.random.choice(options[key]) for key in chosen}
        pattern = self.random.choice([".*", "^[abc]$", "^[cde]$"])
        priority = self.random.randint(0, 3)
        policy = Policy(name=self._name(), pattern=pattern, definition=definition, apply_to="queues", priority=priority)
        return commands.SetPolicy("/", policy, operator)

    def _name(self) -> str:
        return self.random.choice(["p", "q"])

    def _clear_policy(self, broker: Broker) -> commands.Command:
        return commands.ClearPolicy("/", self._name(), self._chance(0.2))

    def _operate(self, broker: Broker) -> commands.Command:
        commands_: list[commands.Command] = [
            commands.SetTracing("/", self._chance(0.3)),
            commands.AddVhost("v"),
            commands.SetPermissions("guest", "v", ".*", ".*", ".*"),
            commands.DeleteVhost("v"),
            commands.AddUser("someone", "secret"),
            commands.DeleteUser("nobody"),
            commands.ClearPermissions("someone", "/"),
        ]
        return self.random.choice(commands_)

    def _pass_time(self, broker: Broker) -> commands.Command:
        return commands.PassTime()


def handled(broker: Broker, command: commands.Command, now_us: int) -> list[Any]:
    """What came of a command; of a refused one what it and the time did all the same."""
    try:
        return list(broker.handle(command, now_us))
    except OperatorError as error:
        return [str(error), *broker.handle(commands.PassTime(), now_us)]


def play(release: str, seed: int, count: int = COMMANDS) -> None:
    """Run so many random commands, checking after each."""
    players, ledger = Players(seed), Ledger()
    original = Broker(release, watch=Event)
    now_us, twin = START_US, original
    for step in range(count):
        if step % 25 == 0:
            twin = Broker.restore(original.snapshot())
            if players.random.random() < 0.5:
                original, twin = twin, original
        command = players.command(original)
        now_us += players.wait_ms() * MS
        events = handled(original, command, now_us)
        check(original)
        ledger.observe_all(events)
        ledger.check(original)
        assert handled(twin, command, now_us) == events
        assert twin.next_due() == original.next_due()


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_lost_miscounted_or_left_undone(release: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agenda, "STEPS_IN_ONE_INSTANT", 300)
    play(release, seed)


# What random commands seldom come to


class Bench:
    """A broker with two clients, ``one`` and ``two``, whose channels are 1."""

    def __init__(self, release: str = "4.3", capable: bool = True) -> None:
        self.broker, self.now_us = Broker(release, watch=Event), START_US
        self.ledger = Ledger()
        for client in ("one", "two"):
            self.do(commands.OpenConnection(client, client_properties=_CANCEL_NOTIFY if capable else {}))
            self.do(commands.OpenChannel((client, 1)))

    def do(self, command: commands.Command, after_ms: int = 0) -> list[Any]:
        """Run a command and check."""
        self.now_us += after_ms * MS
        events = handled(self.broker, command, self.now_us)
        check(self.broker)
        self.ledger.observe_all(events)
        self.ledger.check(self.broker)
        return events

    def declare(self, name: str, kind: str = "classic", **arguments: Any) -> None:
        """Declare a queue: ``max_length=1`` is the argument x-max-length."""
        table = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
        self.do(commands.DeclareQueue(channel=ONE, queue=name, durable=True, arguments={"x-queue-type": kind, **table}))

    def publish(self, queue: str, body: bytes = b"m", **properties: Any) -> list[Any]:
        return self.do(commands.Publish(ONE, "", queue, properties, body))

    def consume(self, queue: str, tag: str = "c", channel: Any = None, **options: Any) -> list[Any]:
        return self.do(commands.Consume(channel=channel or ONE, queue=queue, consumer_tag=tag, **options))

    def ready(self, queue: str) -> int:
        return self.broker.vhosts["/"].queues[queue].store.ready


ONE, TWO = ("one", 1), ("two", 1)


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_a_message_that_becomes_the_head_by_a_delivery_expires_at_its_own_time(kind: str) -> None:
    bench = Bench()
    bench.declare("q", kind)
    bench.do(commands.Qos(ONE, 1))
    bench.publish("q")
    bench.consume("q")
    bench.publish("q", expiration="100000")
    bench.publish("q", expiration="1000")
    bench.do(commands.Ack(ONE, 1))
    assert bench.ready("q") == 1
    bench.do(commands.PassTime(), after_ms=1_000)
    assert bench.ready("q") == 0


@pytest.mark.parametrize("transactional", [False, True])
def test_a_rejection_that_a_stream_refuses_loses_nothing_of_other_queues(transactional: bool) -> None:
    bench = Bench("3.10")
    bench.declare("a", "stream")
    bench.declare("z")
    bench.do(commands.Qos(ONE, 10))
    bench.consume("a", "s")
    bench.consume("z", "c")
    bench.publish("a")
    bench.publish("z")
    if transactional:
        bench.do(commands.SelectTransactions(ONE))
        bench.do(commands.Nack(ONE, 1, False, True))
        bench.do(commands.Ack(ONE, 2))
        bench.do(commands.Commit(ONE))
    else:
        bench.do(commands.Nack(ONE, 0, True, True))
    assert not bench.broker.channels.get(ONE)
    assert bench.ready("z") == 1


@pytest.mark.parametrize("capable", [True, False])
def test_timed_out_deliveries_come_back_once_when_their_channel_is_lost(capable: bool) -> None:
    bench = Bench(capable=capable)
    for name in ("q", "r"):
        bench.declare(name, "quorum", consumer_timeout=60_000)
        bench.publish(name)
        bench.publish(name)
    bench.do(commands.Qos(ONE, 1))
    bench.consume("q")
    for name in ("q", "r", "r"):
        bench.do(commands.Get(ONE, name))
    bench.do(commands.PassTime(), after_ms=60_000)
    assert not bench.broker.channels.get(ONE)
    assert [bench.ready("q"), bench.ready("r")] == [2, 2]


def test_a_shorter_timeout_behind_a_longer_one_is_noticed_in_time() -> None:
    bench = Bench()
    bench.declare("slow", "quorum")
    bench.declare("quick", "quorum", consumer_timeout=60_000)
    for name in ("slow", "quick"):
        bench.publish(name)
        bench.consume(name, name)
    assert [type(e).__name__ for e in bench.do(commands.PassTime(), after_ms=60_000)][:1] == ["ConsumerCancelled"]


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_a_single_active_consumer_is_served_when_its_client_reads_again(kind: str) -> None:
    bench = Bench()
    bench.declare("q", kind, single_active_consumer=True)
    bench.consume("q")
    bench.do(commands.PauseDeliveries("one"))
    bench.publish("q")
    bench.do(commands.ResumeDeliveries("one"))
    assert bench.ready("q") == 0


def test_a_single_active_consumer_goes_on_when_the_one_to_replace_it_leaves() -> None:
    bench = Bench()
    bench.declare("q", "quorum", single_active_consumer=True)
    bench.consume("q")
    bench.publish("q")
    bench.consume("q", "higher", TWO, arguments={"x-priority": 10})
    bench.do(commands.Cancel(TWO, "higher"))
    bench.do(commands.Ack(ONE, 1))
    bench.publish("q")
    assert bench.ready("q") == 0


def test_deliveries_of_a_deleted_queue_are_none_of_a_new_one_of_its_name() -> None:
    bench = Bench()
    for _ in range(2):
        bench.declare("q")
        bench.publish("q")
        bench.do(commands.Get(ONE, "q"))
        if len(bench.broker.channels[ONE].unacked) == 1:
            bench.do(commands.DeleteQueue(ONE, "q"))
    bench.do(commands.Nack(ONE, 0, True, True))
    assert bench.ready("q") == 1


def test_what_happened_before_a_refused_operation_is_reported_all_the_same() -> None:
    bench = Bench()
    bench.declare("d")
    bench.declare("q", message_ttl=1_000, dead_letter_exchange="", dead_letter_routing_key="d")
    bench.consume("d")
    bench.publish("q")
    now_us = bench.now_us + 1_000 * MS
    with pytest.raises(OperatorError, match="nobody"):
        bench.broker.handle(commands.DeleteUser("nobody"), now_us)
    assert bench.broker.next_due() == now_us
    assert any(isinstance(event, Delivered) for event in bench.broker.handle(commands.PassTime(), now_us))


def test_one_queue_that_refuses_keeps_no_message_from_the_others() -> None:
    bench = Bench()
    bench.declare("full", max_length=0, overflow="reject-publish")
    bench.declare("open")
    strategy = {"dead_letter_strategy": "at-least-once", "overflow": "reject-publish"}
    bench.declare("q", "quorum", dead_letter_exchange="amq.fanout", **strategy)
    for name in ("full", "open"):
        bench.do(commands.BindQueue(ONE, name, "amq.fanout"))
    bench.publish("q")
    bench.do(commands.Get(ONE, "q"))
    bench.do(commands.Reject(ONE, 1, False))
    assert bench.ready("open") == 1
    bench.do(commands.DeleteQueue(ONE, "full"))
    bench.declare("full")
    bench.do(commands.BindQueue(ONE, "full", "amq.fanout"))
    bench.do(commands.PassTime(), after_ms=180_000)
    assert [bench.ready("open"), bench.ready("full")] == [1, 1]


@pytest.mark.parametrize("header", [["no table"], [{"queue": "q", "reason": "rejected", "count": "many"}]])
def test_a_forged_history_crashes_the_dead_letter_worker_only(header: list[Any]) -> None:
    bench = Bench("3.10")
    strategy = {"dead_letter_strategy": "at-least-once", "overflow": "reject-publish"}
    bench.declare("q", "quorum", dead_letter_exchange="", dead_letter_routing_key="d", **strategy)
    bench.publish("q", headers={"x-death": header})
    bench.do(commands.Get(ONE, "q"))
    bench.do(commands.Reject(ONE, 1, False))


def test_auto_delete_exchanges_go_with_the_queue_that_both_were_bound_to() -> None:
    bench = Bench()
    bench.declare("q")
    for name in ("x", "y"):
        bench.do(commands.DeclareExchange(channel=ONE, exchange=name, type="fanout", auto_delete=True))
        bench.do(commands.BindQueue(ONE, "q", name))
    bench.do(commands.BindExchange(ONE, destination="x", source="y"))
    bench.do(commands.DeleteQueue(ONE, "q"))
    assert not {"x", "y"} & bench.broker.vhosts["/"].exchanges.keys()


@pytest.mark.parametrize("release", RELEASES)
def test_names_that_are_no_unicode_are_names(release: str) -> None:
    bench = Bench(release)
    for name in ("q\ud800", "z"):
        bench.declare(name, "quorum")
        bench.publish(name, correlation_id="\udcff", headers={"\udcfe": "\udcfd"})
        bench.do(commands.Get(ONE, name))
    bench.do(commands.Nack(ONE, 0, True, True))
    bench.consume("z", "\ud800")
    bench.do(commands.CloseChannel(ONE))


def test_a_snapshot_follows_long_chains() -> None:
    broker = Broker()
    for number in range(300):
        broker.handle(commands.OpenConnection(number), START_US)
        broker.handle(commands.OpenChannel((number, 1)), START_US)
        broker.handle(commands.DeclareQueue(channel=(number, 1), queue=str(number)), START_US)
        for queue in (number, max(0, number - 1)):
            broker.handle(commands.Consume(channel=(number, 1), queue=str(queue)), START_US)
    check(Broker.restore(broker.snapshot()))


def test_using_a_queue_leaves_no_deadlines_behind() -> None:
    bench = Bench()
    bench.declare("q", expires=3_600_000)
    for number in range(100):
        bench.do(commands.Get(ONE, "q"), after_ms=1)
        bench.publish("q", expiration=str(100_000 + number))
    assert len(bench.broker.state.timers._heap) < 5


def test_a_loop_without_end_costs_each_call_a_bounded_number_of_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agenda, "STEPS_IN_ONE_INSTANT", 100)
    bench = Bench("3.10")  # where a rejection in the history shields a loop of expiring queues
    for name, to in (("a", "b"), ("b", "c"), ("c", "b")):
        ttl: dict[str, Any] = {} if name == "a" else {"message_ttl": 0}
        bench.declare(name, dead_letter_exchange="", dead_letter_routing_key=to, **ttl)
    bench.publish("a")
    bench.do(commands.Get(ONE, "a"))
    bench.do(commands.Reject(ONE, 1, False))
    events = bench.do(commands.PassTime(), after_ms=86_400_000)
    assert len(events) < 10 * 100
    assert bench.broker.next_due() == bench.now_us + 1 * MS
