"""Plays a script against a server, real or simulated, and writes down everything that its clients see.

    transcript = play(scenario.operations, Target("amqp://guest:guest@localhost:5672/", "http://localhost:15672/"))

``transcript`` (see ``transcript.py``) has one list of events for each operation: its answer if it says anything, and
all that arrived on any channel until everything had settled. One more list in the end has what the queues of the
script then hold. ``on`` stands in an event whose channel is not the operation's. A ``Player`` plays operations one
at a time, for whoever makes them up as it goes.

Every script gets a virtual host of its own, so that many can be played at the same time.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tests.differential import operations as ops
from tests.differential.client import Connection, Incoming
from tests.differential.management import Management, RefusedError
from tests.differential.session import Session
from tests.differential.transcript import Event, Names, Transcript, confirms_last, timeless
from tests.vectors import amqp

SETTLE_S = 10.0  # what has not settled by then never will
STATISTICS_S = 20.0  # servers show statistics some seconds late
POLICY_S = 0.08  # queues learn of policies, and channels of tracing, a little later
LEEWAY_S = 3.0  # between two clocks
ROUNDS = 2  # a simulator that was busy with one connection may see the end of another one after that
FAST_S = 0.012  # so long nothing must have changed
SLOW_S = 0.060  # where there are quorum queues or streams

_METHODS = {
    ops.DeclareQueue: "queue.declare",
    ops.DeleteQueue: "queue.delete",
    ops.PurgeQueue: "queue.purge",
    ops.DeclareExchange: "exchange.declare",
    ops.DeleteExchange: "exchange.delete",
    ops.Bind: "queue.bind",
    ops.Unbind: "queue.unbind",
    ops.BindExchange: "exchange.bind",
    ops.UnbindExchange: "exchange.unbind",
    ops.Get: "basic.get",
    ops.Consume: "basic.consume",
    ops.Cancel: "basic.cancel",
    ops.Qos: "basic.qos",
    ops.Recover: "basic.recover",
    ops.SelectConfirms: "confirm.select",
    ops.SelectTransactions: "tx.select",
    ops.Commit: "tx.commit",
    ops.Rollback: "tx.rollback",
    ops.Ack: "basic.ack",
    ops.Nack: "basic.nack",
    ops.Reject: "basic.reject",
}

_LATE = (ops.SetPolicy, ops.ClearPolicy, ops.SetTracing, ops.Http)


class Target(NamedTuple):
    """A server to play against.

    ``advance`` moves the clock of a simulator by so many ms and returns when all of it has happened, and a simulator
    has done everything that a command leads to before it answers the next. ``None``: time passes by itself, and what
    follows comes a little later; ``patience`` multiplies the waiting for it. ``now``: the clock, seconds since 1970.
    """

    amqp_url: str
    management_url: str
    advance: Callable[[int], None] | None = None
    now: Callable[[], float] = time.time
    patience: float = 1.0


def play(script: Sequence[ops.Operation], target: Target) -> Transcript:
    """Play in a virtual host of its own, which is deleted in the end."""
    with Player(target) as player:
        transcript = [player.play(operation) for operation in script]
        transcript.append(player.rest())
    return transcript


class Player:
    """Plays operations one by one. A context manager: the virtual host exists only inside."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.vhost = f"dlx-diff-{uuid.uuid4().hex[:12]}"
        self.names = Names(self.vhost)
        self._http = Management(target.management_url, target.amqp_url)
        self._session = Session(target.amqp_url, self.vhost, self.names)
        self._observer = Observer(target.amqp_url, self.vhost)
        self._contents: dict[str, ops.Operation] = {}  # how to see what a queue that was declared holds
        self._users: set[str] = set()
        self._connections = 0
        self._began = target.now()

    def __enter__(self) -> Player:
        self._http.make_vhost(self.vhost)
        self.names.add(self._http.call("GET", "overview")["node"], "node")
        return self

    def __exit__(self, *error: object) -> None:
        self._session.end()
        self._observer.end()
        self._http.delete("vhosts", self.vhost)
        for user in self._users:
            self._http.delete("users", user)

    def play(self, operation: ops.Operation) -> list[Event]:
        """What was seen from the operation on until everything had settled."""
        at = getattr(operation, "channel", "")
        self._do(operation)
        if operation.settles and not (self.target.advance and isinstance(operation, ops.Wait)):
            self._settle(at, POLICY_S if isinstance(operation, _LATE) else 0)
        self._session.collect(at)
        return self._seen(at)

    def rest(self) -> list[Event]:
        """What every queue of the script holds in the end."""
        for look in self._contents.values():
            self._do(look)
        return self._seen("")

    def _seen(self, at: str) -> list[Event]:
        """The events since the last time, with what differs from run to run replaced."""
        events = confirms_last(self._session.events)
        self._session.events = []
        since, until = self._began - LEEWAY_S, self.target.now() + LEEWAY_S
        hidden = (at, "a/observer")
        shown = [{key: v for key, v in event.items() if key != "on" or v not in hidden} for event in events]
        return [self.names.replaced(timeless(event, since, until)) for event in shown]

    # -- operations

    def _do(self, operation: ops.Operation) -> None:
        match operation:
            case ops.Publish():
                self._publish(operation)
            case ops.Settlement():
                self._answer(operation)
            case ops.Send():
                self._send(operation)
            case ops.OpenChannel(channel=at):
                self._session.channel(at)
            case ops.CloseChannel(channel=at):
                self._session.close_channel(at)
            case ops.OnChannel():
                self._call(operation)
            case ops.Burst(operations=several):
                for each in several:
                    self._do(each)
            case ops.OpenConnection():
                self._session.open(operation)
            case ops.CloseConnection(connection=name):
                self._session.close(name)
            case ops.KillConnection(connection=name):
                self._session.close(name, kill=True)
            case ops.Wait(ms=ms):
                (self.target.advance or _sleep)(ms)
            case ops.Count() | ops.Drain() | ops.ReadStream():
                self._look_at(operation)
            case ops.ShowQueue():
                self._show(operation)
            case ops.Http():
                self._request_as_it_is(operation)
            case _:
                self._operate(operation)

    def _call(self, operation: ops.OnChannel) -> None:
        """An operation that the server answers."""
        values = self.names.real(_fields(operation))
        answer = self._session.call(operation.channel, _METHODS[type(operation)], **values)
        channel = self._session.channel(operation.channel)
        if answer is None or answer.is_close or channel is None:
            return
        match operation:
            case ops.SelectConfirms():
                channel.confirming = channel.listening = True
            case ops.SelectTransactions():
                channel.transactional = True
            case ops.Recover():
                channel.unanswered.clear()
            case ops.Consume():
                channel.listening = True
                if operation.no_ack:
                    channel.automatic.add(answer.values["consumer_tag"])
            case ops.Get(no_ack=True) if answer.method == "basic.get-ok":
                channel.unanswered.discard(answer.values["delivery_tag"])
            case ops.DeclareQueue(passive=False):
                self._declared(operation, answer.values["queue"])

    def _declared(self, operation: ops.DeclareQueue, real_name: str) -> None:
        connection, name = operation.channel.partition("/")[0], self.names.alias(real_name)
        is_stream = operation.arguments.get("x-queue-type") == "stream"
        self._contents[name] = (ops.ReadStream if is_stream else ops.Drain)(name, connection=connection)
        self._observer.add(real_name, operation.arguments)

    def _publish(self, operation: ops.Publish) -> None:
        channel = self._session.channel(operation.channel)
        if channel is None:
            return
        properties = self.names.real(operation.properties)
        if operation.headers is not None:
            properties["headers"] = self.names.real(amqp.table(operation.headers))
        values = self.names.real({"exchange": operation.exchange, "routing_key": operation.routing_key})
        flags = {"mandatory": operation.mandatory, "immediate": operation.immediate}
        channel.connection.publish(channel.number, properties, operation.body.encode(), **values, **flags)
        channel.published_one()

    def _send(self, operation: ops.Send) -> None:
        channel = self._session.channel(operation.channel)
        if channel is not None:
            channel.listening = True
            channel.connection.send(channel.number, operation.method, **self.names.real(operation.values))

    def _answer(self, operation: ops.Settlement) -> None:
        channel = self._session.channel(operation.channel)
        if channel is None:
            return
        tag = operation.tag
        if tag is None:
            tag = channel.answer(operation.delivery, multiple=getattr(operation, "multiple", False))
        if tag is None:
            return
        flags = _fields(operation, without=("delivery", "tag"))
        channel.connection.send(channel.number, _METHODS[type(operation)], delivery_tag=tag, **flags)

    def _operate(self, operation: ops.Operation) -> None:
        """An operation through the management API."""
        method, *path, body = self._request(operation)
        try:
            self._http.call(method, *path, body=body)
        except RefusedError as error:
            self._session.events.append({"event": "http", "status": error.status, "reason": error.reason})

    def _request_as_it_is(self, operation: ops.Http) -> None:
        """A request whose answer is noted whatever it is."""
        path = [self.vhost if part == ops.VHOST else self.names.real(part) for part in operation.path]
        seen: Event = {"event": "http"}
        try:
            seen["status"], content = self._http.answer(operation.method, *path, body=self.names.real(operation.body))
            seen |= {} if content is None else {"body": content}
        except RefusedError as error:
            seen |= {"status": error.status, "reason": error.reason}
        self._session.events.append(seen)

    def _request(self, operation: ops.Operation) -> tuple[Any, ...]:
        """Method, parts of the path, and body."""
        vhost, given = self.vhost, getattr(operation, "user", None)
        user = self.names.user(given) if given else ""
        permissions = _fields(operation, without=("user",))
        match operation:
            case ops.SetPolicy(name=name, operator=operator):
                body = {key.replace("_", "-"): v for key, v in _fields(operation, without=("operator",)).items()}
                return "PUT", "operator-policies" if operator else "policies", vhost, name, body
            case ops.ClearPolicy(name=name, operator=operator):
                return "DELETE", "operator-policies" if operator else "policies", vhost, name, None
            case ops.AddUser():
                self._users.add(user)
                return "PUT", "users", user, {"password": operation.user, "tags": operation.tags}
            case ops.DeleteUser():
                return "DELETE", "users", user, None
            case ops.SetPermissions():
                return "PUT", "permissions", vhost, user, permissions
            case ops.ClearPermissions():
                return "DELETE", "permissions", vhost, user, None
            case ops.SetTopicPermissions():
                return "PUT", "topic-permissions", vhost, user, permissions
            case ops.SetVhostLimit(name=name, value=value):
                return "PUT", "vhost-limits", vhost, name, {"value": value}
            case ops.SetUserLimit(name=name, value=value):
                return "PUT", "user-limits", user, name, {"value": value}
            case ops.SetTracing(active=active):
                return "PUT", "vhosts", vhost, {"tracing": active}
        raise TypeError(f"no such operation: {operation!r}")

    # -- looking

    def _look_at(self, operation: ops.Count | ops.Drain | ops.ReadStream) -> None:
        match operation:
            case ops.Count():
                queue, at = self.names.real(operation.queue), f"{operation.connection}/observer"
                self._session.call(at, "queue.declare", queue=queue, passive=True)
            case ops.Drain():
                self._drain(operation)
            case ops.ReadStream():
                self._read_stream(operation)

    def _show(self, operation: ops.ShowQueue) -> None:
        columns = {"columns": ",".join(("name", *operation.fields))}
        began, found = time.monotonic(), dict[str, Any]()
        while not set(operation.fields) <= found.keys() and time.monotonic() - began < STATISTICS_S:
            found = self._http.call("GET", "queues", self.vhost, operation.queue, query=columns) or {}
        listed = self._http.call("GET", "queues", self.vhost, query=columns)
        self._session.events.append({"event": "http", "shown": found, "listed": found in listed})

    def _drain(self, operation: ops.Drain) -> None:
        at, queue = f"{operation.connection}/observer", self.names.real(operation.queue)
        answer = self._session.call(at, "basic.get", queue=queue, no_ack=True)
        while answer is not None and answer.method == "basic.get-ok":
            answer = self._session.call(at, "basic.get", queue=queue, no_ack=True)
        if answer is not None and answer.method == "basic.get-empty":
            self._session.events[-1] = {"event": "empty", "queue": operation.queue}

    def _read_stream(self, operation: ops.ReadStream) -> None:
        at = f"{operation.connection}/stream"
        offset = {"x-stream-offset": operation.offset}
        for each in (ops.Qos(1000, channel=at), ops.Consume(operation.queue, "reader", arguments=offset, channel=at)):
            self._call(each)
        self._settle(at)
        self._session.close_channel(at)

    # -- settling

    def _settle(self, at: str, at_least_s: float = 0.0) -> None:
        """Wait until nothing changes any more: what queues have, arrivals, confirms.

        What is looked at first is what the operation did at once, compared with what the queues had before it; so
        one that changes nothing takes one look.
        """
        if self.target.advance is not None:
            self._finish(at)
            return
        quiet_s = max(SLOW_S if self._observer.slow else FAST_S, at_least_s) * self.target.patience
        until = time.monotonic() + SETTLE_S
        self._session.exchange(at, lambda channel: at in (channel.name, ""))
        self._session.collect(at)
        before, found = None, self._seen_last()
        while time.monotonic() < until and (found != before or self._session.unconfirmed()):
            time.sleep(quiet_s)
            before, found = found, self._look(at)

    def _finish(self, at: str) -> None:
        """Have the simulator finish; once more where a connection has ended."""
        for _ in range(1 if self._session.connections == self._connections else ROUNDS):
            self._session.exchange(at)
        self._connections = self._session.connections

    def _look(self, at: str) -> tuple[Any, ...]:
        """What must not change any more."""
        self._session.exchange(at, lambda channel: channel.listening)
        self._session.collect(at)
        self._observer.look()
        return self._seen_last()

    def _seen_last(self) -> tuple[Any, ...]:
        return len(self._session.events), self._observer.counts


class Observer:
    """Looks at queues from a connection of its own, without changing anything for the script.

    Each queue has a channel of its own there, so that all can be asked for at a time: one that is gone closes its own.
    """

    def __init__(self, url: str, vhost: str) -> None:
        self._url, self._vhost = url, vhost
        self._connection: Connection | None = None
        self._numbers: dict[str, int] = {}  # the channel for each queue
        self._open: set[int] = set()
        self._hidden: set[str] = set()  # queues that cannot be looked at
        self.counts: dict[str, tuple[int, int] | None] = {}  # ready messages and consumers; ``None``: it is gone
        self.slow = False  # whether there are queues that take their time

    def add(self, queue: str, arguments: dict[str, Any]) -> None:
        """Look at this queue, too, unless looking would put off its end."""
        self.slow |= arguments.get("x-queue-type") in ("quorum", "stream")
        self._hidden.discard(queue)
        if "x-expires" not in arguments:
            self._numbers.setdefault(queue, len(self._numbers) + 1)

    def look(self) -> None:
        """Bring ``counts`` up to date."""
        queues = [queue for queue in self._numbers if queue not in self._hidden]
        self.counts = self._ask(queues)
        if queues and self._connection is None:  # a server of 4.0 cannot say a text that is cut within a character
            for queue in queues:
                self.counts |= self._ask([queue])
                if self._connection is None:
                    self._hidden.add(queue)

    def _ask(self, queues: list[str]) -> dict[str, tuple[int, int] | None]:
        """The counts of these queues."""
        if not queues:
            return {}
        if self._connection is None:
            self._connection, self._open = Connection(self._url, self._vhost), set()
        numbers = {self._numbers[queue]: queue for queue in queues}
        opens = [(number, "channel.open", dict[str, Any]()) for number in numbers if number not in self._open]
        asks = [(number, "queue.declare", {"queue": queue, "passive": True}) for number, queue in numbers.items()]
        self._connection.send_all(opens + asks)
        self._open |= numbers.keys()
        answers = self._connection.answers(list(numbers), "queue.declare-ok")
        self._connection.inbox.clear()
        return {numbers[number]: self._count(number, numbers[number], answer) for number, answer in answers.items()}

    def _count(self, number: int, queue: str, answer: Incoming) -> tuple[int, int] | None:
        if not answer.is_close:
            return answer.values["messages"], answer.values["consumers"]
        self._open.discard(number)
        if answer.method == "channel.close":
            if answer.values["code"] != 404:  # such as 405: exclusive to its connection
                self._hidden.add(queue)
        else:
            self._connection = None
        return None

    def end(self) -> None:
        """Cut the connection."""
        if self._connection is not None:
            self._connection.kill()


def _fields(operation: ops.Operation, without: tuple[str, ...] = ()) -> dict[str, Any]:
    """Its fields as the protocol names them, with typed tables."""
    left_out = ("channel", *without)
    found = {name: getattr(operation, name) for name in operation.__struct_fields__ if name not in left_out}
    if "arguments" in found:
        found["arguments"] = amqp.table(found["arguments"])
    return found


def _sleep(ms: int) -> None:
    time.sleep(ms / 1000)
