"""Records what clients do with a simulated node: it sees each command, each reply and each event, and changes nothing.

The node gives it commands before the broker carries them out, and replies before clients get them; the broker's
observer gives it what happens to messages. ``save`` writes the folder; the trace is written as it comes.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Container, Hashable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from dlx.message import Message
from dlx.routing import REPLY_TO
from dlx.topology import STOCK_EXCHANGES, Binding
from simulator.broker import commands, replies
from simulator.broker.commands import ChannelId, Command
from simulator.broker.replies import Reply
from simulator.capture.journal import CaptureFile
from simulator.capture.schema import Observation
from simulator.events import Event, Happened, silent_loss
from simulator.generate.traced_rows import TRACED, observation
from simulator.message_history import RecordingBroker
from simulator.record.publishes import SeenPublishes, identities
from simulator.record.recording import (
    FORMAT,
    MANAGEMENT_API,
    SECTIONS,
    TRACE,
    ClientConnection,
    Declaration,
    Kind,
    RecordedLoss,
    RecordedQueue,
    RecordedRefusal,
    Recording,
    binding_name,
    document_of,
    is_reply,
    readable,
    write_recording,
)
from simulator.server.management.bindings import exported_binding
from simulator.server.management.definitions import Export
from simulator.server.management.internal_channel import InternalConnectionId
from simulator.server.node import Node

PUBLISHES_REMEMBERED = 10_000
ROWS_AT_ONCE = 200


class _Open(NamedTuple):
    """A delivery that is not settled: the queue's statistics, and what stands for its body."""

    queue: RecordedQueue
    body: int


class _Channel:
    """What one channel has open.

    Attributes:
        connection, number: whose it is, and which of its channels.
        asked: commands whose replies have not come.
        consumers: statistics of the queue by consumer tag, and whether the consumer acknowledges automatically.
        prefetch: what the next consumer gets.
        confirms: whether publishes are confirmed.
        unsettled: deliveries by tag.
        to_commit: what a transaction has done so far; ``None`` without transactions.
    """

    def __init__(self, connection: ClientConnection, number: int) -> None:
        self.connection = connection
        self.number = number
        self.asked: deque[Command] = deque()
        self.consumers: dict[str, tuple[RecordedQueue, bool]] = {}
        self.prefetch = 0
        self.confirms = False
        self.unsettled: dict[int, _Open] = {}
        self.to_commit: list[Command] | None = None


class ApplicationRecorder:
    """Records one node.

    Attributes:
        recording: what is known so far; ``save`` brings its declarations up to date.

    Args:
        node: whose broker is a ``RecordingBroker``. It records from now on.
        folder: where the recording is written, which exists; nowhere without one.
        command: what is run against it.

    Raises:
        CaptureError: the trace cannot be written.
    """

    def __init__(self, node: Node, folder: Path | None = None, command: tuple[str, ...] = ()) -> None:
        assert isinstance(node.broker, RecordingBroker)
        self._node, self._broker, self._folder = node, node.broker, folder
        self.recording = Recording(
            format=FORMAT, release=node.broker.release.name, command=list(command), began_us=node.clock.now_us()
        )
        self._trace = None if folder is None else CaptureFile(folder / TRACE)
        self._rows: list[Observation] = []  # that are not in the trace yet
        self._export = Export(node)
        self._rest: dict[str, Any] = {}
        self._policies: dict[tuple[str, str], dict[str, Any]] = {}
        self._channels: dict[ChannelId, _Channel] = {}
        self._connections: dict[Hashable, ClientConnection] = {}
        self._declarations: dict[tuple[Kind, str, str], Declaration] = {}
        self._refusals: dict[tuple[str, str, int, str], RecordedRefusal] = {}
        self._published = SeenPublishes()
        self._consumed: dict[tuple[str, str], RecordedQueue] = {}
        self._lost: dict[tuple[str, str, str | None, str | None], RecordedLoss] = {}
        self._fresh: set[tuple[int, str]] = set()  # queues that a connection declared since it last published there
        self._publishing: ClientConnection | None = None
        self._publishing_on = self._lines = self._unreadable = self._refused_last = 0
        self._entering: OrderedDict[int, ClientConnection | None] = OrderedDict()  # by the number of the message
        self._before: Happened | None = None
        self._keep: Callable[[Happened, Message], None] = self._broker.histories.keep
        self._see_all()
        node.recorder = self
        self._broker.observe(self._event)

    def stop(self, exit_code: int | None = None) -> None:
        """End the recording and write it. Raises ``OSError``."""
        self._node.recorder = None
        self._broker.observe(self._keep)
        self.recording.exit_code = exit_code
        self.recording.ended_us = self._node.clock.now_us()
        self.save()
        if self._trace is not None:
            self._trace.close()

    def save(self) -> None:
        """Write what is known so far, if there is a folder. Raises ``OSError``."""
        self._see_all()
        found = self.recording
        if self._unreadable:
            what = f"{self._unreadable:,} publishes and deliveries in the trace, with properties that are not UTF-8"
            found.not_seen = [what]
        found.declarations = list(self._declarations.values())
        found.refusals = list(self._refusals.values())
        found.published, found.omitted = list(self._published.by_key.values()), self._published.omitted
        for each in self._consumed.values():
            queue = self._broker.queue(each.queue, each.vhost)
            each.waiting = 0 if queue is None else queue.messages
            each.held = 0 if queue is None else queue.store.pending
        found.consumed = list(self._consumed.values())
        found.lost = list(self._lost.values())
        if self._folder is not None:
            self._write_rows()
            write_recording(self._folder, found, self.document)

    def _write_rows(self) -> None:
        rows, self._rows = self._rows, []
        if self._trace is not None:
            self._trace.extend(rows)

    @property
    def document(self) -> dict[str, Any]:
        """All that was ever declared, as an export of definitions without users."""
        return document_of(self.recording, self._rest | {"policies": list(self._policies.values())})

    # What is declared

    def _see_all(self) -> None:
        """Compare what the node has with what was declared."""
        document = self._export.whole()
        for section in ("users", "permissions", "topic_permissions", *SECTIONS.values()):
            found = document.pop(section, [])
            for kind in (kind for kind, of in SECTIONS.items() if of == section):
                for item in found:
                    self._seen(kind, item)
        self._policies |= {(each["vhost"], each["name"]): each for each in document.pop("policies", [])}
        self._rest = document
        now_us = self._node.clock.now_us()
        bound = {
            (name, each.source, each.destination_type, each.destination, each.routing_key)
            for name, vhost in self._broker.vhosts.items()
            for bindings in vhost.bindings.values()
            for each in bindings
        }
        for declaration in self._declarations.values():
            if self._is_there(declaration, bound):
                declaration.gone_us = None
            elif declaration.gone_us is None:
                declaration.gone_us = now_us

    def _is_there(self, declaration: Declaration, bound: Container[tuple[str, ...]]) -> bool:
        vhost, item = self._broker.vhosts.get(declaration.vhost), declaration.item
        if vhost is None:
            return False
        if declaration.kind == "binding":
            names = ("source", "destination_type", "destination", "routing_key")
            return (declaration.vhost, *(item[name] for name in names)) in bound
        return declaration.name in (vhost.queues if declaration.kind == "queue" else vhost.exchanges)

    def _seen(self, kind: Kind, item: dict[str, Any]) -> Declaration:
        """Note that an object is there as its item says."""
        name = binding_name(item) if kind == "binding" else item["name"]
        key = kind, item["vhost"], name
        found = self._declarations.get(key)
        if found is None:
            found = Declaration(
                kind=kind, vhost=item["vhost"], name=name, item=item, first_us=self._node.clock.now_us()
            )
            self._declarations[key] = found
        elif found.item != item | ({"exclusive": True} if "exclusive" in found.item else {}):
            found.replaces.append(found.item)
            found.item = item
        return found

    def _declared(self, kind: Kind, item: dict[str, Any], by: ClientConnection) -> None:
        found = self._seen(kind, item)
        found.times += 1
        found.gone_us = None
        if by.number not in found.connections:
            found.connections.append(by.number)

    def _was_declared(self, command: Command, reply: Reply, by: ClientConnection) -> None:
        """Note what a command declared that the broker carried out."""
        vhost = by.vhost
        if isinstance(command, commands.DeclareQueue) and isinstance(reply, replies.QueueDeclared):
            self._fresh.add((by.number, reply.queue))
            if command.passive:
                return
            queue = self._broker.queue(reply.queue, vhost)
            if queue is not None:
                item = self._export.queue(queue)
                self._declared("queue", item | ({"exclusive": True} if command.exclusive else {}), by)
        elif isinstance(command, commands.DeclareExchange) and not command.passive:
            host = self._broker.vhosts[vhost]
            if command.exchange in host.exchanges and command.exchange not in STOCK:
                self._declared("exchange", self._export.exchange(host.exchanges[command.exchange], host), by)
        elif isinstance(command, commands.BindQueue):
            queue_name = command.queue or self._last_queue(command.channel)
            self._bound(command, by, source=command.exchange, destination=queue_name)
        elif isinstance(command, commands.BindExchange):
            ends = {"source": command.source, "destination": command.destination}
            self._bound(command, by, **ends, destination_type="exchange")

    def _bound(self, command: commands.BindQueue | commands.BindExchange, by: ClientConnection, **ends: str) -> None:
        binding = Binding(**ends, routing_key=command.routing_key, arguments=command.arguments)
        self._declared("binding", exported_binding(binding, by.vhost), by)

    def _last_queue(self, channel: ChannelId) -> str:
        found = self._broker.channels.get(channel)
        return "" if found is None else found.last_queue

    # Commands, before they are carried out

    def command(self, command: Command) -> None:
        """Note a command that the broker is about to carry out."""
        kind = type(command)
        if kind in _OF_NODE:
            _OF_NODE[kind](self, command)
        elif kind in _OF_CHANNELS:
            channel = self._channels.get(command.channel)  # type: ignore[attr-defined]
            if channel is None:
                return
            if kind in _IN_TRANSACTIONS and channel.to_commit is not None:
                channel.to_commit.append(command)
                self._publishing, self._publishing_on = channel.connection, channel.number  # it is traced at once
            else:
                _OF_CHANNELS[kind](self, channel, command)

    def _open_connection(self, command: commands.OpenConnection) -> None:
        given = command.client_properties
        connection = ClientConnection(
            number=len(self.recording.connections) + 1,
            name=str(given.get("connection_name") or command.name),
            product=str(given.get("product", "")),
            version=str(given.get("version", "")),
            vhost=command.vhost,
            user=command.user,
            opened_us=self._node.clock.now_us(),
        )
        if isinstance(command.connection, InternalConnectionId):
            connection.number, connection.name = MANAGEMENT_API, "management API"
        else:
            self.recording.connections.append(connection)
        self._connections[command.connection] = connection

    def _connection_gone(self, key: Hashable) -> None:
        connection = self._connections.pop(key, None)
        if connection is None:
            return
        connection.closed_us = self._node.clock.now_us()
        for channel in [channel for channel in self._channels if channel[0] == key]:
            self._channel_gone(channel)
        self._fresh = {each for each in self._fresh if each[0] != connection.number}

    def _open_channel(self, command: commands.OpenChannel) -> None:
        connection = self._connections.get(command.channel[0])
        if connection is not None:
            self._channels[command.channel] = _Channel(connection, command.channel[1])

    def _channel_gone(self, key: ChannelId) -> None:
        channel = self._channels.pop(key, None)
        if channel is not None:
            for delivery in channel.unsettled.values():
                delivery.queue.abandoned += 1

    def _ask(self, channel: _Channel, command: Command) -> None:
        """Remember a command until its reply says that it was carried out."""
        if isinstance(command, commands.DeleteQueue | commands.DeleteExchange):
            self._see_all()
        channel.asked.append(command)

    def _transactions(self, channel: _Channel, _command: commands.SelectTransactions | commands.Rollback) -> None:
        """Begin a transaction, without what one before it did."""
        channel.to_commit = []

    def _commit(self, channel: _Channel, _command: commands.Commit) -> None:
        done, channel.to_commit = channel.to_commit or [], []
        for each in done:
            _OF_CHANNELS[type(each)](self, channel, each)

    def _publish(self, channel: _Channel, command: commands.Publish) -> None:
        self._publishing, self._publishing_on = channel.connection, channel.number
        connection = channel.connection
        if is_reply(command.exchange, command.routing_key):
            return
        published = self._published.find((connection.vhost, command.exchange, command.routing_key))
        if published is None:
            return
        properties = command.properties
        headers = properties.get("headers") or {}
        expiration, persistent = str(properties.get("expiration", "")), properties.get("delivery_mode") == 2
        published.add(headers, expiration, persistent=persistent, by=connection.number)
        published.mandatory += command.mandatory
        published.confirmed += channel.confirms
        self._published.published(_message(connection, properties, command.body), headers, published)

    def _qos(self, channel: _Channel, command: commands.Qos) -> None:
        channel.prefetch = command.prefetch_count

    def _queue(self, vhost: str, queue: str) -> RecordedQueue:
        return self._consumed.setdefault((vhost, queue), RecordedQueue(vhost=vhost, queue=queue))

    def _consumption(self, channel: _Channel, queue: str) -> RecordedQueue:
        found = self._queue(channel.connection.vhost, queue)
        if channel.connection.number not in found.connections:
            found.connections.append(channel.connection.number)
        return found

    def _confirms(self, channel: _Channel, _command: commands.SelectConfirms) -> None:
        channel.confirms = True

    def _ack(self, channel: _Channel, command: commands.Ack) -> None:
        for delivery in self._settled(channel, command.delivery_tag, multiple=command.multiple):
            delivery.queue.acked += 1

    def _reject(self, channel: _Channel, command: commands.Reject | commands.Nack) -> None:
        multiple = isinstance(command, commands.Nack) and command.multiple
        for delivery in self._settled(channel, command.delivery_tag, multiple=multiple):
            if command.requeue:
                delivery.queue.requeued += 1
                delivery.queue.failed += isinstance(command, commands.Reject)
            else:
                delivery.queue.rejected += 1

    def _settle(self, channel: _Channel, command: commands.Settle) -> None:
        """Note an outcome of AMQP 1.0."""
        for tag in command.delivery_tags:
            for delivery in self._settled(channel, tag, multiple=False):
                if command.outcome == "accepted":
                    delivery.queue.acked += 1
                elif command.outcome == "rejected" or command.undeliverable_here:
                    delivery.queue.rejected += 1
                else:
                    delivery.queue.requeued += 1
                    delivery.queue.failed += command.delivery_failed

    def _detach_link(self, channel: _Channel, command: commands.DetachLink) -> None:
        """Note what comes back to its queue with a link of AMQP 1.0."""
        queue, _ = channel.consumers.pop(command.consumer_tag, (None, False))
        for tag in [tag for tag, delivery in channel.unsettled.items() if delivery.queue is queue]:
            for delivery in self._settled(channel, tag, multiple=False):
                delivery.queue.requeued += 1

    def _recover(self, channel: _Channel, _command: commands.Recover) -> None:
        for delivery in self._settled(channel, 0, multiple=True):
            delivery.queue.requeued += 1

    def _settled(self, channel: _Channel, tag: int, *, multiple: bool) -> list[_Open]:
        """Take the deliveries that a client settles: that of a tag, or all up to it; tag 0 means all."""
        unsettled = channel.unsettled
        tags = [each for each in unsettled if tag == 0 or each <= tag] if multiple else [tag] * (tag in unsettled)
        settled = [unsettled.pop(each) for each in tags]
        for each in settled:
            self._published.settled(channel.connection.number, each.body)
        return settled

    def login_refused(self, user: str) -> None:
        """Note that nobody could log in as this user."""
        text = f"login refused: user '{user}' - invalid credentials"
        self._count_refusal("", "connection.start-ok", _ACCESS_REFUSED, text)

    def _count_refusal(self, vhost: str, method: str, code: int, text: str) -> RecordedRefusal:
        first_us = self._node.clock.now_us()
        refusal = RecordedRefusal(vhost=vhost, method=method, code=code, text=text, first_us=first_us)
        found = self._refusals.setdefault((vhost, method, code, text), refusal)
        found.times += 1
        return found

    # Replies

    def reply(self, reply: Reply) -> None:
        """Note a reply of the broker."""
        kind = type(reply)
        if kind is replies.Delivered or kind is replies.Got:
            self._delivery(reply)  # type: ignore[arg-type]
        elif kind is replies.ChannelClosed:
            self._refused(reply.channel[0], reply)  # type: ignore[attr-defined, arg-type]
            self._channel_gone(reply.channel)  # type: ignore[attr-defined]
        elif kind is replies.ConnectionClosed:
            self._refused(reply.connection, reply)  # type: ignore[attr-defined, arg-type]
            self._connection_gone(reply.connection)  # type: ignore[attr-defined]
        elif kind is replies.ConsumerCancelled:
            self._cancelled(reply)  # type: ignore[arg-type]
        elif kind in _ANSWERS:
            self._answer(reply)

    def _delivery(self, reply: replies.Delivered | replies.Got) -> None:
        channel = self._channels.get(reply.channel)
        if channel is None:
            return
        if isinstance(reply, replies.Delivered):
            queue, automatic = channel.consumers.get(reply.consumer_tag, (None, False))
        else:
            asked = next((each for each in channel.asked if isinstance(each, commands.Get)), None)
            if asked is None:
                return
            channel.asked.remove(asked)
            queue = self._consumption(channel, asked.queue or self._last_queue(asked.channel))
            queue.gets += 1
            automatic = asked.no_ack
        if queue is None:
            return
        queue.deliveries += 1
        queue.redeliveries += reply.redelivered
        if automatic:
            queue.automatic += 1
        else:
            channel.unsettled[reply.delivery_tag] = _Open(queue, hash(reply.body))
        properties = reply.message.properties
        message = _message(channel.connection, properties, reply.body)
        self._published.delivered(message, queue, reply.message.headers or {}, properties.get("reply_to"))

    def _refused(self, connection: Hashable, reply: replies.ChannelClosed | replies.ConnectionClosed) -> None:
        by = self._connections.get(connection)
        if by is None:
            return
        found = self._count_refusal(by.vhost, reply.method, reply.code, reply.text)
        if by.number not in found.connections:
            found.connections.append(by.number)
        if isinstance(reply, replies.ChannelClosed) and reply.code == _PRECONDITION_FAILED and not reply.method:
            channel = self._channels.get(reply.channel)
            waiting = [each.queue for each in channel.unsettled.values()] if channel is not None else []
            for queue in {id(each): each for each in waiting}.values():
                queue.timed_out += 1

    def _cancelled(self, reply: replies.ConsumerCancelled | replies.Cancelled) -> None:
        channel = self._channels.get(reply.channel)
        if channel is not None:
            channel.consumers.pop(reply.consumer_tag, None)

    def _answer(self, reply: Any) -> None:
        """Note that the oldest command with such an answer was carried out."""
        channel = self._channels.get(reply.channel)
        if channel is None:
            return
        if isinstance(reply, replies.Cancelled):
            self._cancelled(reply)
            return
        wanted = _ANSWER_TO.get(reply.method if isinstance(reply, replies.Done) else type(reply))
        if wanted is None:
            return
        asked = next((each for each in channel.asked if isinstance(each, wanted)), None)
        if asked is None:
            return
        channel.asked.remove(asked)
        if isinstance(asked, commands.Consume):
            if asked.queue == REPLY_TO:
                return
            queue = self._consumption(channel, asked.queue or self._last_queue(asked.channel))
            channel.consumers[reply.consumer_tag] = queue, asked.no_ack
            queue.consumers += 1
            if channel.prefetch not in queue.prefetch:
                queue.prefetch.append(channel.prefetch)
            found = self._broker.queue(queue.queue, queue.vhost)
            queue.consumers_max = max(queue.consumers_max, 1 if found is None else len(found.consumers))
        elif isinstance(asked, commands.Get):
            self._consumption(channel, asked.queue or self._last_queue(asked.channel)).gets += 1
        else:
            self._was_declared(asked, reply, channel.connection)

    # What happens to messages

    def _event(self, happened: Happened, message: Message) -> None:
        self._keep(happened, message)
        before, self._before = self._before, happened
        kind = happened.event
        if kind in TRACED and self._trace is not None:
            self._trace_row(happened, message)
        if kind == _PUBLISHED:
            self._entering[happened.uid] = self._publishing
            if len(self._entering) > PUBLISHES_REMEMBERED:
                self._entering.popitem(last=False)
        elif kind == _ROUTED:
            self._entered(happened)
        elif kind == Event.DEAD_LETTERED:
            self._entering.pop(happened.uid, None)
        elif kind in _OF_PUBLISHES and happened.queue is None:
            self._publish_ended(happened)
        elif kind == Event.NACKED and happened.reason is None and happened.uid != self._refused_last:
            self._refused_last = happened.uid  # several full queues refuse one publish
            self._count(happened, "refused")
        if silent_loss(happened, before):
            self._lose(happened)

    def _trace_row(self, happened: Happened, message: Message) -> None:
        flow = self._broker.vhosts[happened.vhost].flow(self._broker.release)
        try:
            row = self._row(observation(happened, message, flow), message)
        except UnicodeError:  # a capture holds text alone
            self._unreadable += 1
            return
        for name in _NAMES_OF_ROWS:
            setattr(row, name, readable(getattr(row, name)))
        self._rows.append(row)
        if len(self._rows) == ROWS_AT_ONCE:
            self._write_rows()

    def _row(self, row: Observation, message: Message) -> Observation:
        """Return a row of the trace with what is known here: its line, the message's own id, and who published."""
        self._lines += 1
        row.line = self._lines
        row.message_id = message.properties.get("message_id")
        row.message = row.message_id or row.message
        by = self._publishing if row.event == Event.PUBLISHED else None
        row.connection, row.user, row.channel = ("", "", 0) if by is None else (by.name, by.user, self._publishing_on)
        return row

    def _entered(self, happened: Happened) -> None:
        """Note that a message entered a queue: published, or a dead letter."""
        by, name = self._entering.get(happened.uid), happened.queue or ""
        queue = self._queue(happened.vhost, name)
        if by is None:
            queue.dead_letters += 1
            return
        queue.entered += 1
        if (by.number, name) in self._fresh:
            self._fresh.discard((by.number, name))
            queue.declared_before += 1

    def _publish_ended(self, happened: Happened) -> None:
        self._count(happened, "unroutable")
        if happened.event == Event.RETURNED:
            self._count(happened, "returned")

    def _count(self, happened: Happened, what: str) -> None:
        if happened.exchange is None or not happened.routing_keys:
            return
        key = happened.routing_keys[0]
        found = self._published.by_key.get((happened.vhost, happened.exchange, key))
        if found is not None:
            setattr(found, what, getattr(found, what) + 1)
        elif what == "unroutable" and not is_reply(happened.exchange, key):
            self.recording.omitted_unroutable += 1

    def _lose(self, happened: Happened) -> None:
        key = happened.vhost, happened.event.value, happened.queue, happened.reason
        found = self._lost.get(key)
        if found is None:
            history = self._broker.histories.get(happened.uid)
            found = self._lost[key] = RecordedLoss(
                vhost=happened.vhost,
                event=happened.event.value,
                queue=happened.queue,
                reason=happened.reason,
                exchange=happened.exchange or "",
                routing_key=happened.routing_keys[0] if happened.routing_keys else "",
                story=[] if history is None else history.story(),
            )
        found.times += 1


def _message(by: ClientConnection, properties: Mapping[str, Any], body: bytes) -> Iterable[Hashable]:
    """Return what identifies a message that a client publishes or is given."""
    return identities(properties, by.number, hash(body) if body else None)


_IN_TRANSACTIONS = (commands.Publish, commands.Ack, commands.Reject, commands.Nack)
_ACCESS_REFUSED = 403
_NAMES_OF_ROWS = ("exchange", "queue", "routed_queues", "routing_keys", "message", "message_id", "connection", "user")
_PRECONDITION_FAILED = 406  # of no method: the consumer timeout
STOCK = frozenset(exchange.name for exchange in STOCK_EXCHANGES)
_PUBLISHED, _ROUTED = Event.PUBLISHED, Event.ROUTED  # Python 3.11 takes long to look them up
_OF_PUBLISHES = frozenset({Event.UNROUTABLE, Event.RETURNED})
_OF_NODE: Mapping[type[Command], Callable[[ApplicationRecorder, Any], None]] = {
    commands.OpenConnection: ApplicationRecorder._open_connection,
    commands.CloseConnection: lambda recorder, command: recorder._connection_gone(command.connection),
    commands.OpenChannel: ApplicationRecorder._open_channel,
    commands.CloseChannel: lambda recorder, command: recorder._channel_gone(command.channel),
    commands.ClearPolicy: lambda recorder, _: recorder._see_all(),
    commands.DeleteVhost: lambda recorder, _: recorder._see_all(),
}
_OF_CHANNELS: Mapping[type[Command], Callable[[ApplicationRecorder, _Channel, Any], None]] = {
    commands.DeclareQueue: ApplicationRecorder._ask,
    commands.DeclareExchange: ApplicationRecorder._ask,
    commands.BindQueue: ApplicationRecorder._ask,
    commands.BindExchange: ApplicationRecorder._ask,
    commands.DeleteQueue: ApplicationRecorder._ask,
    commands.DeleteExchange: ApplicationRecorder._ask,
    commands.Consume: ApplicationRecorder._ask,
    commands.Get: ApplicationRecorder._ask,
    commands.Qos: ApplicationRecorder._qos,
    commands.SelectConfirms: ApplicationRecorder._confirms,
    commands.SelectTransactions: ApplicationRecorder._transactions,
    commands.Rollback: ApplicationRecorder._transactions,
    commands.Commit: ApplicationRecorder._commit,
    commands.Publish: ApplicationRecorder._publish,
    commands.Ack: ApplicationRecorder._ack,
    commands.Reject: ApplicationRecorder._reject,
    commands.Nack: ApplicationRecorder._reject,
    commands.Recover: ApplicationRecorder._recover,
    commands.Settle: ApplicationRecorder._settle,
    commands.DetachLink: ApplicationRecorder._detach_link,
}
# The commands that each answer belongs to: a Done by its method, others by their class.
_ANSWER_TO: Mapping[Any, type[Command]] = {
    replies.QueueDeclared: commands.DeclareQueue,
    replies.QueueDeleted: commands.DeleteQueue,
    replies.Consuming: commands.Consume,
    replies.GotNothing: commands.Get,
    "exchange.declare-ok": commands.DeclareExchange,
    "exchange.delete-ok": commands.DeleteExchange,
    "queue.bind-ok": commands.BindQueue,
    "exchange.bind-ok": commands.BindExchange,
}
_ANSWERS = frozenset({replies.Done, replies.Cancelled, *(each for each in _ANSWER_TO if isinstance(each, type))})
