"""One client of STOMP 1.0 to 1.2 at a broker: what each of its frames does, and what it is sent.

A NACK is a poison acknowledgement at once, whatever the redelivery policy of JMS clients is, and none in a
transaction. A transaction keeps sends and acknowledgements back; ABORT drops both, and delivers nothing again: the
client still has its messages. What a client has when it goes counts as delivered.

Source: activemq-stomp, ProtocolConverter, StompSubscription.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

import msgspec

from simulator.events import Event
from simulator.scenario.scenario_errors import ScenarioError
from simulator.systems.activemq.acknowledgements import UncorrelatedError
from simulator.systems.activemq.broker import LAST_UNKNOWN
from simulator.systems.activemq.destinations import Destination, UndefinedError
from simulator.systems.activemq.messages import SCHEDULED_DELAY, Message
from simulator.systems.activemq.selectors import CONVERTING, Selector, SelectorError, UnknownSelectionError
from simulator.systems.activemq.served_broker import NAME, VERSION, ServedBroker
from simulator.systems.activemq.stomp_frames import (
    HEART_BEAT,
    VERSIONS,
    ClientDropped,
    Frame,
    FrameReader,
    StompError,
    Version,
)
from simulator.systems.activemq.stomp_messages import (
    body_of,
    destination_of,
    headers_of,
    is_delay,
    is_named_in_full,
    message_of,
    name_of,
)
from simulator.systems.activemq.stores import HeldMessage, Store

_log = logging.getLogger(__name__)
_JMS, _ROLLED_BACK = "javax.jms.JMSException", "javax.transaction.xa.XAException"
_QUEUE_PREFETCH, _TOPIC_PREFETCH, _DURABLE_PREFETCH = 1000, 32_767, 100
_OPTION = "activemq."
_SUBSCRIPTION = f"{_OPTION}subscriptionName"
_OPTIONS = frozenset({"prefetchSize", "exclusive", "priority", "subscriptionName", "dispatchAsync"})


class _Pending(msgspec.Struct, eq=False):
    """A message that a client has to acknowledge."""

    held: HeldMessage
    ack_id: str
    subscription: Subscription


class _Transaction(msgspec.Struct, eq=False):
    """What waits for a COMMIT. ``failed``: something in it was refused, and so is the COMMIT."""

    unsent: list[Message] = []
    acked: list[_Pending] = []
    failed: bool = False


class HeartBeats(msgspec.Struct, eq=False):
    """The heart-beats of a connection, and what stands for one.

    Attributes:
        reads_ms: how often the client will send something; the broker closes the connection if it does not. 0 never.
        writes_ms: how often it wants something. 0 never.
        heard, told: whether either sent anything since the last time that a heart-beat was due.
    """

    reads_ms: int
    writes_ms: int
    heard: bool = True
    told: bool = True


class StompConnection:
    """One connection.

    Args:
        served: the broker, which is at the time of now whenever this is called.
        address: where the client is, for refusals.
        write: sends bytes to the client.
        close: closes the connection, when what was written is sent.

    Attributes:
        connected: whether the client has connected, and not left.
        heart_beats: of both sides, once the client has asked for them.
    """

    def __init__(
        self, served: ServedBroker, address: str, write: Callable[[bytes], None], close: Callable[[], None]
    ) -> None:
        self.served, self._address = served, address
        self._write, self._close = write, close
        self.heart_beats = HeartBeats(0, 0)
        self.version: Version = "1.0"
        self.identifier = f"ID:{NAME}-{served.trace.start_ms}:{next(served.connections)}"
        self.client_id = self.identifier
        self.connected = self._ended = False
        self._frames = FrameReader()
        self._sent = 0
        self._subscriptions: list[Subscription] = []
        self._by_id: dict[str, Subscription] = {}
        self.pending: dict[str, _Pending] = {}
        self._transactions: dict[str, _Transaction] = {}
        self._temporary: dict[str, Destination] = {}

    # -- frames ----------------------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        """Take bytes of the client, and do what the frames in them say."""
        self.heart_beats.heard = True
        try:
            for frame in self._frames.read(data):
                if not self._ended:
                    self._take(frame)
        except StompError as error:
            self._refuse(error, {})
        except ClientDropped:
            self._end()

    def lost(self) -> None:
        """The client is gone."""
        self._leave()
        self._ended = True

    def send(self, command: str, headers: Mapping[str, str], body: bytes = b"") -> None:
        """Send a frame to the client."""
        if not self._ended:
            self.heart_beats.told = True
            self._write(Frame(command, headers, body).encoded(self._frames.version))

    def beat(self) -> None:
        """Send a heart-beat, where nothing was sent since the last time that one was due."""
        if not self.heart_beats.told and not self._ended:
            self._write(HEART_BEAT)
        self.heart_beats.told = False

    def listen(self) -> None:
        """Close the connection, where nothing was heard since the last time that a heart-beat was due."""
        if not self.heart_beats.heard:
            self._end()
        self.heart_beats.heard = False

    def _take(self, frame: Frame) -> None:
        try:
            self._do(frame)
        except StompError as error:
            self._refuse(error, frame.headers)
        except (ScenarioError, UndefinedError, UnknownSelectionError) as error:
            self._refuse(StompError(f"not simulated: {error}", kind="dlx"), frame.headers)

    def _do(self, frame: Frame) -> None:
        for command, act in self._ACTIONS.items():
            if frame.command.startswith(command):
                if act not in (StompConnection._connect, StompConnection._disconnect) and not self.connected:
                    raise StompError("Not connected.")
                return act(self, frame)
        raise StompError(f"Unknown STOMP action: {frame.command}", fatal=True)

    def _refuse(self, error: StompError, asked: Mapping[str, str]) -> None:
        receipt = {"receipt-id": asked["receipt"]} if "receipt" in asked else {}
        headers = {"message": error.text, "content-type": "text/plain", **receipt}
        self.send("ERROR", headers, f"{error.kind}: {error.text}".encode())
        if error.fatal:
            self._end()

    def _receipt(self, frame: Frame) -> None:
        if "receipt" in frame.headers:
            self.send("RECEIPT", {"receipt-id": frame.headers["receipt"]})

    def _end(self) -> None:
        self._leave()
        if not self._ended:
            self._ended = True
            self._close()

    def _leave(self) -> None:
        """Give back all that the client has; its transactions end."""
        for transaction in self._transactions.values():
            self._forget(transaction)
        self._transactions.clear()
        leaving, self._subscriptions = self._subscriptions, []
        self.served.broker.detach(leaving, LAST_UNKNOWN)
        for destination in self._temporary.values():
            self.served.broker.remove(destination)
        if self.connected:
            self.served.client_ids.pop(self.client_id, None)
        self.connected = False

    # -- connections -----------------------------------------------------------------------------------------------

    def _connect(self, frame: Frame) -> None:
        if self.connected:
            raise StompError("Already connected.")
        headers = frame.headers
        self.version = _version(headers.get("accept-version", "1.0"))
        reads_ms, writes_ms = _heart_beats(headers.get("heart-beat", "0,0"))
        self.client_id = headers.get("client-id", self.identifier)
        if self.client_id in self.served.client_ids:
            other = self.served.client_ids[self.client_id]
            text = f"Broker: {NAME} - Client: {self.client_id} already connected from {other}"
            raise StompError(text, fatal=True, kind="javax.jms.InvalidClientIDException")
        self.served.client_ids[self.client_id] = self._address
        self.connected = True
        asked = headers.get("request-id", headers.get("receipt"))
        self.send(
            "CONNECTED",
            {
                "session": self.client_id,
                **({} if asked is None else {"response-id": asked, "receipt-id": asked}),
                "version": self.version,
                "heart-beat": f"{writes_ms},{reads_ms}",
                "server": f"ActiveMQ/{VERSION}",
            },
        )
        self._frames.version = self.version
        self.heart_beats = HeartBeats(reads_ms, writes_ms)

    def _disconnect(self, frame: Frame) -> None:
        if self.connected:
            self._leave()
            self._receipt(frame)
            self._end()

    # -- messages --------------------------------------------------------------------------------------------------

    def _send(self, frame: Frame) -> None:
        headers = frame.headers
        if "destination" not in headers:
            raise StompError("SEND received without a Destination specified!")
        transaction = self._transaction(headers)
        destination = destination_of(headers["destination"], self._temporary_destination)
        self._sent += 1
        now_ms, identifier = self.served.trace.now_ms, f"{self.identifier}:-1:1:{self._sent}"
        message = message_of(frame, identifier, now_ms, destination, self._reply_to(headers))
        if self.served.broker.settings.scheduler and not is_delay(message.properties.get(SCHEDULED_DELAY, 0)):
            raise ClientDropped
        self.served.trace.add(Event.PUBLISHED, message)
        if transaction is None:
            self.served.broker.send(message)
        else:
            self.served.broker.announce(destination)
            transaction.unsent.append(message)
        self._receipt(frame)

    def _reply_to(self, headers: Mapping[str, str]) -> Destination | None:
        """Return where answers go; ``None`` if that is not a destination, and so a header like any other."""
        name = headers.get("reply-to")
        if name is None or not is_named_in_full(name):
            return None
        return destination_of(name, self._temporary_destination)

    def _temporary_destination(self, kind: str, name: str) -> Destination:
        if name not in self._temporary:
            number = len(self._temporary) + 1
            made = Destination("temp-queue" if kind == "temp-queue" else "temp-topic", f"{self.identifier}:{number}")
            self._temporary[name] = made
            self.served.broker.announce(made)
        return self._temporary[name]

    def known_as(self, destination: Destination) -> str:
        """Return how this client names a destination."""
        own = (name for name, made in self._temporary.items() if made == destination)
        return next(own, name_of(destination))

    # -- subscriptions ---------------------------------------------------------------------------------------------

    def _subscribe(self, frame: Frame) -> None:
        headers = frame.headers
        number = headers.get("id")
        if number is None and self.version != "1.0":
            raise StompError("SUBSCRIBE received without a subscription id!")
        if not headers.get("destination"):
            raise StompError("Invalid empty or 'null' Destination header")
        destination = destination_of(headers["destination"], self._temporary_destination)
        browses = headers.get("browser") == "true"
        if browses and self.version == "1.0":
            raise StompError("Queue Browser feature only valid for Stomp v1.1+ clients!")
        durable = headers.get(_SUBSCRIPTION)
        if durable is not None and destination.is_queue:
            raise StompError("Invalid Subscription: cannot durably subscribe to a Queue destination!")
        subscription = Subscription(self, destination, headers)
        if number is not None:
            self._by_id[number] = subscription
        self._subscriptions.append(subscription)
        durable_key = None if durable is None else self._durable_key(durable)
        self._receipt(frame)
        if browses:
            subscription.browse()
        else:
            self.served.broker.attach(subscription, durable_key)

    def _durable_key(self, name: str) -> str:
        key = f"{self.client_id}:{name}"
        store = self.served.broker.durable(key)
        if store is not None and store.attached:
            text = f"Durable consumer is in use for client: {self.client_id} and subscriptionName: {name}"
            raise StompError(text, kind=_JMS)
        if not self.served.broker.settings.durable_consumers:
            raise StompError("Durable Consumers are not allowed", kind=_JMS)
        return key

    def _unsubscribe(self, frame: Frame) -> None:
        headers = frame.headers
        number, name = headers.get("id"), headers.get("destination")
        destination = None if name is None else destination_of(name, self._temporary_destination)
        if number is None and self.version != "1.0":
            raise StompError("UNSUBSCRIBE received without a subscription id!")
        if number is None and destination is None:
            raise StompError("Must specify the subscriptionId or the destination you are unsubscribing from")
        if _SUBSCRIPTION in headers:
            self._end_durable(headers[_SUBSCRIPTION])
        else:
            self._end_subscription(number, destination)
        self._receipt(frame)

    def _end_subscription(self, number: str | None, destination: Destination | None) -> None:
        if number is not None:
            found = self._by_id.pop(number, None)
        else:
            found = next((each for each in self._subscriptions if each.destination == destination), None)
        if found is None:
            raise StompError("No subscription matched.")
        self._subscriptions.remove(found)
        self.served.broker.detach([found], LAST_UNKNOWN)

    def _end_durable(self, name: str) -> None:
        client_id = name if self.version == "1.0" else self.client_id
        key = f"{client_id}:{name}"
        store = self.served.broker.durable(key)
        if store is None:
            text = f"No durable subscription exists for clientID: {client_id} and subscriptionName: {name}"
            raise StompError(text, kind="javax.jms.InvalidDestinationException")
        if store.attached:
            raise StompError("Durable consumer is in use", kind=_JMS)
        self.served.broker.unsubscribe(key)

    # -- acknowledgements ------------------------------------------------------------------------------------------

    def _ack(self, frame: Frame) -> None:
        headers = frame.headers
        if self.version != "1.2" and "message-id" not in headers:
            raise StompError("ACK received without a message-id to acknowledge!")
        if self.version == "1.1" and "subscription" not in headers:
            raise StompError("ACK received without a subscription id for acknowledge!")
        if self.version == "1.2" and "id" not in headers:
            raise StompError("ACK received without a ack id for acknowledge!")
        transaction = self._transaction(headers)
        pending = self._meant("ACK", headers)
        pending.subscription.acknowledge(pending, transaction)
        self._receipt(frame)

    def _nack(self, frame: Frame) -> None:
        headers = frame.headers
        if self.version == "1.0":
            raise StompError("NACK received but connection is in v1.0 mode.")
        if self.version == "1.1" and "subscription" not in headers:
            raise StompError("NACK received without a subscription id for acknowledge!")
        if self.version == "1.1" and "message-id" not in headers:
            raise StompError("NACK received without a message-id to acknowledge!")
        if self.version == "1.2" and "id" not in headers:
            raise StompError("NACK received without an ack header to acknowledge!")
        transaction = self._transaction(headers)
        pending = self._meant("NACK", headers)
        pending.subscription.reject(pending, transaction)
        self._receipt(frame)

    def _meant(self, command: str, headers: Mapping[str, str]) -> _Pending:
        """Return what an ACK or NACK is about. Raises ``StompError``."""
        found = self._found(headers)
        if found is None:
            raise StompError(f"Unexpected {command} received for message-id [{headers.get('message-id', 'null')}]")
        return found

    def _found(self, headers: Mapping[str, str]) -> _Pending | None:
        """Return what a client means by the headers of an ACK or NACK; 1.0 need not say of which subscription."""
        if "id" in headers:
            return self.pending.get(headers["id"])
        if "subscription" in headers:
            subscription = self._by_id.get(headers["subscription"])
            return None if subscription is None else subscription.pending.get(headers["message-id"])
        found = (each.pending.get(headers["message-id"]) for each in self._subscriptions)
        return next((each for each in found if each is not None), None)

    # -- transactions ----------------------------------------------------------------------------------------------

    def _transaction(self, headers: Mapping[str, str]) -> _Transaction | None:
        if "transaction" not in headers:
            return None
        found = self._transactions.get(headers["transaction"])
        if found is None:
            raise StompError(f"Invalid transaction id: {headers['transaction']}")
        return found

    def _begin(self, frame: Frame) -> None:
        name = frame.headers.get("transaction")
        if name is None:
            raise StompError("Must specify the transaction you are beginning")
        if name in self._transactions:
            raise StompError(f"The transaction was already started: {name}")
        self._transactions[name] = _Transaction()
        self._receipt(frame)

    def _ended_transaction(self, frame: Frame) -> _Transaction:
        transaction = self._transaction(frame.headers)
        if transaction is None:
            raise StompError("Must specify the transaction you are committing")
        del self._transactions[frame.headers["transaction"]]
        return transaction

    def _commit(self, frame: Frame) -> None:
        transaction = self._ended_transaction(frame)
        for subscription in self._subscriptions:
            subscription.commit(transaction)
        if transaction.failed:
            self._forget(transaction)
            text = "COMMIT FAILED: Transaction marked rollback only xaErrorCode:100"
            raise StompError(text, kind=_ROLLED_BACK)
        for message in transaction.unsent:
            self.served.broker.send(message)
        for pending in transaction.acked:
            self.served.broker.acknowledgements.acknowledge(pending.subscription, [pending.held], transacted=True)
        self._receipt(frame)

    def _abort(self, frame: Frame) -> None:
        transaction = self._ended_transaction(frame)
        for subscription in self._subscriptions:
            subscription.abort()
        self._forget(transaction)
        self._receipt(frame)

    def _forget(self, transaction: _Transaction) -> None:
        """Drop what a transaction was to do."""
        for message in transaction.unsent:
            self.served.trace.add(Event.PURGED, message, detail="its transaction was rolled back")
        for pending in transaction.acked:
            self.served.broker.acknowledgements.rolled_back(pending.subscription, [pending.held])

    _ACTIONS: Mapping[str, Callable[[StompConnection, Frame], None]] = {
        "SEND": _send,
        "ACK": _ack,
        "NACK": _nack,
        "BEGIN": _begin,
        "COMMIT": _commit,
        "ABORT": _abort,
        "SUB": _subscribe,
        "UNSUB": _unsubscribe,
        "CONNECT": _connect,
        "STOMP": _connect,
        "DISCONNECT": _disconnect,
    }
    """What the commands that begin so do, as a broker tells them apart."""


class Subscription:
    """A consumer of STOMP, as the broker sees it.

    Attributes:
        pending: what the client has to acknowledge, by the message's identifier, the oldest first.
    """

    def __init__(self, connection: StompConnection, destination: Destination, headers: Mapping[str, str]) -> None:
        self._connection, self.destination = connection, destination
        self._number, self._mode = headers.get("id"), headers.get("ack", "auto")
        self.name = f"{connection.client_id} {self._number or headers['destination']}"
        self.pending: dict[str, _Pending] = {}
        self._transacted: list[_Pending] = []
        options = {name.removeprefix(_OPTION): value for name, value in headers.items() if name.startswith(_OPTION)}
        for name in options.keys() - _OPTIONS:
            _log.warning("%s: %s%s is not simulated", self.name, _OPTION, name)
        prefetch = _QUEUE_PREFETCH if destination.is_queue else _TOPIC_PREFETCH
        prefetch = _DURABLE_PREFETCH if "subscriptionName" in options else prefetch
        self.prefetch = _whole(options, "prefetchSize", prefetch)
        self.priority = _whole(options, "priority", 0)
        self.exclusive = options.get("exclusive") == "true"
        self.selector: Selector | None = None
        if headers.get("selector"):
            try:
                self.selector = Selector(CONVERTING + headers["selector"])
            except SelectorError as error:
                kind = "javax.jms.InvalidSelectorException"
                raise StompError(headers["selector"], kind=kind) from error

    # -- out -------------------------------------------------------------------------------------------------------

    def dispatched(self, held: HeldMessage, store: Store) -> None:
        """Send a message to the client."""
        trace, acknowledgements = self._connection.served.trace, self._connection.served.broker.acknowledgements
        trace.add(
            Event.DELIVERED,
            held.message,
            subscription=store.durable_key,
            consumer=self.name,
            delivery_count=held.counter + 1,
            redelivered=held.counter > 0,
        )
        more: dict[str, str] = {}
        if self._mode in ("client", "client-individual"):
            number = next(self._connection.served.acknowledgements)
            pending = _Pending(held, f"ID:{NAME}-{trace.start_ms}-ack:{number}", self)
            self.pending[held.message.message_id] = pending
            if self._connection.version == "1.2":
                self._connection.pending[pending.ack_id] = pending
                more["ack"] = pending.ack_id
        # A durable subscription counts beside the message, where STOMP does not see it.
        self._send(held.message if store.topic_subscriber else held.as_counted(), more)
        if not more and held.message.message_id not in self.pending:
            acknowledgements.acknowledge(self, [held], transacted=False)

    def browse(self) -> None:
        """Send what is in the queue, and then that this was all."""
        for held in self._connection.served.broker.browse(self.destination):
            if self.selector is None or self.selector.selects(held.as_counted()):
                self._send(held.as_counted(), {})
        end = {"destination": self._connection.known_as(self.destination), "message-id": "0", "browser": "end"}
        self._connection.send("MESSAGE", {**end, **self._named()})

    def _send(self, message: Message, more: dict[str, str]) -> None:
        headers = headers_of(message, self._connection.known_as) | self._named() | more
        self._connection.send("MESSAGE", headers, body_of(message))

    def _named(self) -> dict[str, str]:
        return {} if self._number is None else {"subscription": self._number}

    # -- in --------------------------------------------------------------------------------------------------------

    def acknowledge(self, pending: _Pending, transaction: _Transaction | None) -> None:
        """Acknowledge a message; in the mode ``client`` those before it, too."""
        acked = [pending]
        if self._mode == "client":
            known = [*self.pending.values()]
            acked = known[: known.index(pending) + 1]
        for each in acked:
            self._connection.pending.pop(each.ack_id, None)
        acknowledgements = self._connection.served.broker.acknowledgements
        if transaction is None:
            for each in acked:
                del self.pending[each.held.message.message_id]
            acknowledgements.acknowledge(self, [each.held for each in acked], transacted=False)
            return
        new = [each for each in acked if each not in self._transacted]
        self._transacted += new
        if self._mode != "client":
            acknowledgements.acked_in_transaction(self, [pending.held])
            transaction.acked.append(pending)
        acknowledgements.read_ack(self, len(new))

    def reject(self, pending: _Pending, transaction: _Transaction | None) -> None:
        """Let a message die. Raises ``StompError`` in a transaction, whose COMMIT fails then, too."""
        self._connection.pending.pop(pending.ack_id, None)
        identifier = pending.held.message.message_id
        ack = f"MessageAck {{ackType = 1, firstMessageId = {identifier}, lastMessageId = {identifier}}}"
        if transaction is not None:
            self._transacted.append(pending)
            transaction.failed = True
            raise StompError(f"Poison ack cannot be transacted: {ack}", kind=_JMS)
        del self.pending[identifier]
        try:
            self._connection.served.broker.acknowledgements.poison_ack(self, pending.held, pending.held, None)
        except UncorrelatedError as error:
            text = f"Could not correlate acknowledgment with dispatched message: {ack}"
            raise StompError(text, kind=_JMS) from error

    def commit(self, transaction: _Transaction) -> None:
        """Let a transaction that commits have what was acknowledged, in whichever transaction."""
        for each in self._transacted:
            self.pending.pop(each.held.message.message_id, None)
        if self._mode == "client":
            acked, self._transacted = self._transacted, []
            self._connection.served.broker.acknowledgements.acked_in_transaction(self, [each.held for each in acked])
            transaction.acked += acked

    def abort(self) -> None:
        """Let the client acknowledge again what it acknowledged, in whichever transaction."""
        if self._connection.version == "1.2":
            self._connection.pending |= {each.ack_id: each for each in self._transacted}
        self._transacted.clear()


def _version(accepted: str) -> Version:
    """Return the highest version that a client speaks. Raises ``StompError``."""
    named = accepted.strip().split(",")
    found = next((each for each in VERSIONS if each in named), None)
    if found is None:
        text = f"Invalid Protocol version[{accepted}], supported versions are: [{', '.join(VERSIONS)}]"
        raise StompError(text, fatal=True)
    return found


def _heart_beats(text: str) -> tuple[int, int]:
    """Return how often a client will send something, and how often it wants something. Raises ``StompError``."""
    parts = text.strip().split(",")
    if len(parts) != len(("sends", "wants")) or not all(part.isdecimal() for part in parts):
        raise StompError(f"Invalid heart-beat header:{text}", fatal=True)
    return int(parts[0]), int(parts[1])


def _whole(options: Mapping[str, str], name: str, default: int) -> int:
    text = options.get(name, "")
    return int(text) if text.removeprefix("-").isdecimal() else default
