"""A session of AMQP 1.0, which is a channel of the broker: frames become commands, and replies become frames.

A link whose source is a queue is a consumer with credit, tagged by its handle; what comes in over a link to an
exchange or a queue is published with confirms, and each confirm settles the delivery.

Source: rabbit_amqp_session.erl.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec
from proton import Array, Described, int32, symbol, uint

from dlx import amqp_errors
from dlx.erlang_printing import Atom, printed
from dlx.routing import REPLY_TO
from dlx.topology import CLASSIC, QUORUM, STREAM
from simulator.broker import QueueState, VirtualHost, replies
from simulator.broker.commands import (
    ChannelId,
    CheckTarget,
    CloseChannel,
    Command,
    Consume,
    DeclareQueue,
    DeleteQueue,
    DetachLink,
    GrantCredit,
    OpenChannel,
    Outcome,
    Publish,
    SelectConfirms,
    Settle,
)
from simulator.broker.replies import ChannelClosed, Delivered, Reply
from simulator.json_values import plain
from simulator.server.amqp.connection import ServerSettings
from simulator.server.amqp10 import addresses, errors, management
from simulator.server.amqp10.addresses import Place, RoutingFault
from simulator.server.amqp10.errors import LinkFault, SessionFault
from simulator.server.amqp10.filters import read_filters
from simulator.server.amqp10.frames import (
    Accepted,
    Attach,
    Begin,
    Codec,
    Composite,
    Detach,
    Disposition,
    End,
    Error,
    Flow,
    Modified,
    Rejected,
    Released,
    Source,
    Target,
    Transfer,
    symbols,
)
from simulator.server.amqp10.messages import MessageCodec, Sections
from simulator.server.amqp10.values import erlang_pair, erlang_term

SENDER, RECEIVER = False, True
UNSETTLED, SETTLED, MIXED = 0, 1, 2  # snd-settle-mode
SECOND = 1  # rcv-settle-mode
HANDLE_MAX = 255  # link_max_per_session - 1
LINK_CREDIT = 170  # rabbit_amqp_session.erl DEFAULT_MAX_LINK_CREDIT
QUEUE_CREDIT = 256  # DEFAULT_MAX_QUEUE_CREDIT
INCOMING_WINDOW = 400
TRANSFER_BYTES = 64  # room for the performative in a frame of a delivery
UINT_MAX = 2**32 - 1
Send = Callable[..., None]
_Terminus = TypeVar("_Terminus", Source, Target)


class IncomingLink(msgspec.Struct, kw_only=True, eq=False):
    """A link over which the client publishes. ``target`` is ``None`` where each message says where it goes."""

    handle: int
    name: str | None
    address: str | None
    target: Place | None
    settle_mode: int
    delivery_count: int
    credit: int = LINK_CREDIT
    unconfirmed: int = 0
    fragments: list[bytes] = msgspec.field(default_factory=list)
    first: Transfer | None = None


class OutgoingLink(msgspec.Struct, kw_only=True, eq=False):
    """A link over which the client consumes a queue. ``attach`` is its answer, ``sent`` how many messages went out.

    ``queue_credit``: how much of the client's credit the queue may use for now; ``is_stashed``: whether what the client
    last granted has to wait until all deliveries have been sent;
    ``has_priorities``: whether the queue does; ``says_active``: whether the client is told which link of its queue is
    active, and ``is_active`` what it was told; ``was_late``: whether it has ever kept a delivery for too long.
    """

    handle: int
    queue: str
    type: str
    settled: bool
    attach: Attach
    delivery_count: int
    credit: int = 0
    queue_credit: int = 0
    is_stashed: bool = False
    sent: int = 0
    drain: bool = False
    echo: bool = False
    is_active: bool | None = None
    has_priorities: bool = False
    says_active: bool = False
    was_late: bool = False


class ManagementPair(msgspec.Struct, eq=False):
    """The two links of a name over which requests to ``/management`` come and responses go."""

    request_handle: int | None = None
    response_handle: int | None = None
    delivery_count: int = 0
    credit: int = management.CREDIT
    response_count: int = 0
    response_credit: int = 0

    def forget(self, handle: int) -> None:
        """Forget the link of that handle."""
        if self.request_handle == handle:
            self.request_handle = None
        if self.response_handle == handle:
            self.response_handle = None


class Unsettled(msgspec.Struct):
    """A delivery to the client that it has not settled."""

    handle: int
    delivery_tag: int


class WaitingDelivery(msgspec.Struct):
    """A delivery to the client that waits to be sent, or what is left of one. It gets its id when its first part goes.

    ``parts`` are what goes into each frame, and whether more follows; ``delivery_tag`` is the broker's, of a delivery
    that the client is to settle.
    """

    handle: int
    transfer: Transfer
    parts: deque[tuple[bytes, bool]]
    delivery_tag: int | None = None


class Unconfirmed(msgspec.Struct):
    """A delivery from the client that the broker has not confirmed."""

    link: IncomingLink
    delivery_id: int
    settled: bool
    unroutable: bool = False


class Session:
    """One session: frames in, commands out; replies in, frames out.

    Attributes:
        ended: whether the server has sent end.
        management: the node ``/management``.
        frame_max: of the client, in bytes; ``None`` without a limit.
        window_closed: whether it takes no messages because of an alarm, but those that are on their way.
    """

    def __init__(
        self, channel: ChannelId, settings: ServerSettings, codec: Codec, messages: MessageCodec, send: Send
    ) -> None:
        self.id = channel
        self.ended = False
        self.frame_max: int | None = None
        self.window_closed = False
        self.management = management.Management((channel[0], channel[1] + management.CHANNELS), settings.broker, codec)
        self._settings = settings
        self._release = settings.release
        self._codec = codec
        self._messages = messages
        self._send = send
        self._incoming: dict[int, IncomingLink] = {}
        self._outgoing: dict[int, OutgoingLink] = {}
        self._false = False if settings.release.amqp10_spells_out_false else None
        ends = settings.release.amqp10_faults_of_links == "end the session"
        self._wrong_transfer = "amqp:connection:framing-error" if ends else "amqp:invalid-field"
        self._pairs: dict[str, ManagementPair] = {}
        self._temporary_queues: dict[int, str] = {}
        self._declared = ""
        self._begun = False
        self._handle_max = HANDLE_MAX
        self._next_incoming_id = 0
        self._incoming_window = INCOMING_WINDOW
        self._next_outgoing_id, self._first_delivery_count = settings.release.amqp10_first_ids
        self._remote_window = self._remote_outgoing_window = 0
        self._next_delivery_id = 0
        self._unsettled: dict[int, Unsettled] = {}
        self._next_publish = 1
        self._unconfirmed: dict[int, Unconfirmed] = {}
        self._accepted: list[int] = []
        self._pending: deque[WaitingDelivery | Flow] = deque()

    # Frames in, commands out

    def frame(self, performative: Composite, payload: bytes) -> Iterator[Command]:
        """Yield the commands of one frame. Raises ``SessionFault``."""
        act = _ACTS.get(type(performative))
        if act is None or (isinstance(performative, Begin) and self._begun):
            raise SessionFault("amqp:internal-error", f"Unexpected frame {type(performative).__name__.lower()}")
        yield from act(self, performative, payload)

    def _begin(self, begin: Begin, _payload: bytes) -> Iterator[Command]:
        self._begun = True
        self._next_incoming_id = _number(begin.next_outgoing_id)
        self._remote_window = _number(begin.incoming_window)
        self._remote_outgoing_window = begin.outgoing_window or 0
        self._handle_max = min(HANDLE_MAX if begin.handle_max is None else begin.handle_max, HANDLE_MAX)
        self._incoming_window = 0 if self.window_closed else INCOMING_WINDOW
        yield OpenChannel(self.id)
        yield SelectConfirms(self.id)
        self._send(
            Begin(
                remote_channel=self.id[1],
                next_outgoing_id=self._next_outgoing_id,
                incoming_window=self._incoming_window,
                outgoing_window=UINT_MAX,
                handle_max=self._handle_max,
            )
        )

    def _attach(self, attach: Attach, _payload: bytes) -> Iterator[Command]:
        handle = _number(attach.handle)
        if handle > self._handle_max:
            raise SessionFault(
                "amqp:connection:framing-error",
                f"link handle value ({handle}) exceeds maximum link handle value ({self._handle_max})",
            )
        if handle in self._incoming or handle in self._outgoing or self._pair_of(handle) is not None:
            raise SessionFault("amqp:session:handle-in-use", f"handle {handle} is already associated with a link")
        try:
            self._check_attach(attach)
            if self._is_management(attach):
                self._attach_management(attach)
            elif attach.role == SENDER:
                yield from self._attach_publisher(attach)
            else:
                yield from self._attach_consumer(attach)
        except LinkFault as fault:
            self._outgoing.pop(handle, None)
            self._refuse_link(attach, fault)

    def _check_attach(self, attach: Attach) -> None:
        if attach.name is None and self._release.amqp10_faults_of_links == "detach the link":
            raise SessionFault("amqp:internal-error", "function_clause")
        if attach.unsettled or attach.incomplete_unsettled:
            raise errors.not_implemented("Link recovery not supported")
        if attach.rcv_settle_mode == SECOND and attach.snd_settle_mode != SETTLED:
            raise errors.not_implemented("rcv-settle-mode second not supported")

    def _refuse_link(self, attach: Attach, fault: LinkFault) -> None:
        """Answer with the attach of a link without a terminus, and detach it, or raise ``SessionFault``."""
        if self._release.amqp10_faults_of_links == "end the session":
            raise SessionFault(fault.condition, fault.description)
        sends = attach.role == SENDER
        self._send(
            Attach(
                name=attach.name,
                handle=attach.handle,
                role=not attach.role,
                snd_settle_mode=attach.snd_settle_mode,
                rcv_settle_mode=attach.rcv_settle_mode,
                source=attach.source if sends else None,
                target=None if sends else attach.target,
                initial_delivery_count=None if sends else self._first_delivery_count,
            )
        )
        self._send_detach(_number(attach.handle), fault)

    def _fault_of_link(self, link: IncomingLink, fault: LinkFault) -> None:
        """Detach a link over which a faulty message came. Raises ``SessionFault`` where that ends the session."""
        if self._release.amqp10_faults_of_links == "end the session" and not fault.detaches:
            raise SessionFault(fault.condition, fault.description)
        del self._incoming[link.handle]
        self._send_detach(link.handle, fault)

    def _send_detach(self, handle: int, fault: LinkFault) -> None:
        error = Error(condition=fault.condition, description=fault.description or None, info=fault.info)
        self._send(Detach(handle=handle, closed=True, error=error))

    def _detach(self, detach: Detach, _payload: bytes) -> Iterator[Command]:
        handle = _number(detach.handle)
        pair = self._pair_of(handle)
        known = pair is not None or self._incoming.pop(handle, None) is not None
        if pair is not None:
            pair.forget(handle)
        if self._outgoing.pop(handle, None) is not None:
            known = True
            self._forget_deliveries(handle)
            yield DetachLink(self.id, str(handle))
        if handle in self._temporary_queues:
            yield DeleteQueue(self.id, self._temporary_queues.pop(handle))
        if known:
            self._send(Detach(handle=handle, closed=detach.closed))

    def _end(self, _end: End, _payload: bytes) -> Iterator[Command]:
        self._send_dispositions()
        yield CloseChannel(self.id)
        self._send(End())
        self.ended = True

    def _is_management(self, attach: Attach) -> bool:
        terminus = attach.target if attach.role == SENDER else attach.source
        return getattr(terminus, "address", None) == management.ADDRESS

    def _attach_management(self, attach: Attach) -> None:
        """Attach one of the two links over which requests and responses go. Raises ``LinkFault``."""
        if (attach.properties or {}).get(symbol("paired")) is not True:
            raise LinkFault("amqp:invalid-field", "Link property 'paired' is not set to boolean value 'true'")
        name, handle, is_request = attach.name or "", _number(attach.handle), attach.role == SENDER
        pair = self._pairs.setdefault(name, ManagementPair())
        if (pair.request_handle if is_request else pair.response_handle) is not None:
            raise LinkFault("amqp:precondition-failed", f"received invalid attach for management link pair '{name}'")
        if is_request:
            pair.request_handle, pair.delivery_count = handle, attach.initial_delivery_count or 0
        else:
            pair.response_handle = handle
            pair.response_count = self._first_delivery_count
        self._send(
            Attach(
                name=name,
                handle=handle,
                role=not attach.role,
                snd_settle_mode=SETTLED,
                rcv_settle_mode=0 if is_request else attach.rcv_settle_mode,
                source=attach.source,
                target=attach.target,
                initial_delivery_count=None if is_request else self._first_delivery_count,
                max_message_size=self._settings.message_max_bytes if is_request else attach.max_message_size,
                properties=attach.properties,
            )
        )
        if is_request:
            self._send_flow(handle=handle, delivery_count=pair.delivery_count, link_credit=management.CREDIT)

    def _manage(self, pair: ManagementPair, payload: bytes) -> Iterator[Command]:
        """Answer a request. Raises ``SessionFault``."""
        if pair.credit <= 0:
            raise SessionFault(
                "amqp:link:transfer-limit-exceeded",
                f"insufficient credit ({pair.credit}) for management link from client to RabbitMQ",
            )
        if pair.response_handle is None:
            raise SessionFault("amqp:precondition-failed", "received transfer on half open management link pair")
        if pair.response_credit <= 0:
            raise SessionFault(
                "amqp:precondition-failed",
                f"insufficient credit ({pair.response_credit}) for management link from RabbitMQ to client",
            )
        response = yield from self.management.answer(payload)
        transfer = Transfer(
            handle=pair.response_handle, delivery_tag=b"", message_format=0, settled=True, more=self._false
        )
        self._pending.append(WaitingDelivery(pair.response_handle, transfer, deque([(response, False)])))
        pair.response_credit -= 1
        pair.response_count = _sum(pair.response_count, 1)
        pair.delivery_count = _sum(pair.delivery_count, 1)
        pair.credit -= 1
        if pair.credit <= management.CREDIT // 2:
            pair.credit = management.CREDIT
            self._send_flow(handle=pair.request_handle, delivery_count=pair.delivery_count, link_credit=pair.credit)
        self.send_what_waits()

    def _grant_responses(self, pair: ManagementPair, flow: Flow) -> None:
        pair.response_credit = self._credit_of(flow, pair.response_count)
        if flow.drain:
            pair.response_count, pair.response_credit = _sum(pair.response_count, pair.response_credit), 0
        if flow.drain or flow.echo:
            self._send_flow(
                handle=flow.handle,
                delivery_count=pair.response_count,
                link_credit=pair.response_credit,
                available=0,
                drain=bool(flow.drain),
            )

    def _pair_of(self, handle: int | None) -> ManagementPair | None:
        return next((p for p in self._pairs.values() if handle in (p.request_handle, p.response_handle)), None)

    # Publishing

    def _attach_publisher(self, attach: Attach) -> Iterator[Command]:
        target = attach.target
        if not isinstance(target, Target):
            raise LinkFault("amqp:not-implemented", "Transactions not supported")
        if target.dynamic:
            addresses.dynamic_kind(target, self._release, settled=False)
            target = yield from self._temporary(target, _number(attach.handle))
        place = addresses.target_of(target, self._release)
        if place is not None:
            if place.declares is not None and place.declares not in self._vhost.queues:
                yield DeclareQueue(channel=self.id, queue=place.declares, durable=bool(target.durable))
            self._check_exists(place)
            yield CheckTarget(self.id, place.exchange)
            if self.ended:
                return
        link = IncomingLink(
            handle=_number(attach.handle),
            name=attach.name,
            address=target.address,
            target=place,
            settle_mode=MIXED if attach.snd_settle_mode is None else attach.snd_settle_mode,
            delivery_count=_number(attach.initial_delivery_count),
        )
        self._incoming[link.handle] = link
        queue = None if place is None or place.queue is None else self._vhost.queues.get(place.queue)
        self._send(
            Attach(
                name=attach.name,
                handle=link.handle,
                role=RECEIVER,
                snd_settle_mode=attach.snd_settle_mode,
                rcv_settle_mode=0,
                source=attach.source,
                target=target,
                max_message_size=self._settings.message_max_bytes,
                offered_capabilities=None if queue is None else self._capabilities(queue),
            )
        )
        self._send_flow(handle=link.handle, delivery_count=link.delivery_count, link_credit=link.credit)

    def _check_exists(self, place: Place) -> None:
        """Check that queue and exchange are there and may be published to. Raises ``LinkFault``."""
        if place.queue is not None and place.queue not in self._vhost.queues:
            raise errors.not_found("queue", place.queue, self._vhost.name)
        exchange = self._vhost.exchanges.get(place.exchange)
        if exchange is None:
            raise errors.not_found("exchange", place.exchange, self._vhost.name)
        if exchange.internal:
            raise errors.internal_exchange(place.exchange, self._vhost.name)

    def _capabilities(self, queue: QueueState) -> Any:
        if queue.definition.type != STREAM or not self._release.amqp10_link_capabilities:
            return None
        return symbols(("AMQP_FILTEX_PROP_V1_0", "AMQP_FILTEX_SQL_V1_0"))

    def _transfer(self, transfer: Transfer, payload: bytes) -> Iterator[Command]:
        opens = self._count_transfer()
        handle = _number(transfer.handle)
        link, pair = self._incoming.get(handle), self._pair_of(handle)
        if link is not None:
            try:
                yield from self._take_fragment(link, transfer, payload)
            except LinkFault as fault:
                self._fault_of_link(link, fault)
        elif pair is not None and pair.request_handle == handle:
            yield from self._manage(pair, payload)
        else:
            raise SessionFault("amqp:session:unattached-handle", f"Unknown link handle: {handle}")
        if opens:
            self._send_flow()

    def _take_fragment(self, link: IncomingLink, transfer: Transfer, payload: bytes) -> Iterator[Command]:
        first = link.first  # RabbitMQ does not look whether a transfer is aborted
        if first is not None:
            self._check_continuation(transfer, first)
        link.first = first or transfer
        link.fragments.append(payload)
        size = sum(map(len, link.fragments))
        if size > self._settings.message_max_bytes:
            fault = errors.message_too_large(size, self._settings.message_max_bytes)
            raise SessionFault(fault.condition, fault.description)
        if transfer.more:
            return
        if link.credit <= 0:
            raise LinkFault("amqp:link:transfer-limit-exceeded", "", detaches=True)
        first, encoded = link.first, b"".join(link.fragments)
        link.first = None
        link.fragments.clear()
        self._check_settle_modes(link, first, transfer)
        yield from self._publish(link, first, encoded)

    def _check_continuation(self, transfer: Transfer, first: Transfer) -> None:
        if transfer.delivery_id is not None and transfer.delivery_id != first.delivery_id:
            raise LinkFault(
                self._wrong_transfer,
                f"delivery-id of continuation transfer ({_shown(transfer.delivery_id)}) differs from delivery-id on"
                f" first transfer ({int(first.delivery_id or 0)})",
            )
        if transfer.settled is not None and transfer.settled != bool(first.settled):
            shown = str(transfer.settled).lower(), str(bool(first.settled)).lower()
            raise LinkFault(
                self._wrong_transfer,
                f"field 'settled' of continuation transfer ({shown[0]}) differs from (interpreted) field 'settled' on"
                f" first transfer ({shown[1]})",
            )

    def _check_settle_modes(self, link: IncomingLink, first: Transfer, last: Transfer) -> None:
        settled = bool(first.settled)
        if link.settle_mode in (UNSETTLED, SETTLED) and settled != (link.settle_mode == SETTLED):
            mode, shown = ("settled" if link.settle_mode == SETTLED else "unsettled"), str(settled).lower()
            raise LinkFault(
                self._wrong_transfer,
                f"sender settle mode is '{mode}' but transfer settled flag is interpreted as being '{shown}'",
            )
        if last.rcv_settle_mode == SECOND and not settled:
            raise errors.not_implemented("rcv-settle-mode second not supported")

    def _publish(self, link: IncomingLink, transfer: Transfer, encoded: bytes) -> Iterator[Command]:
        delivery_id, settled = _number(transfer.delivery_id), bool(transfer.settled)
        try:
            message, body = self._messages.read(encoded)
            place = self._place_of(link, message)
        except RoutingFault as fault:
            self._refuse_publish(link, transfer, fault)
            return
        user_id = message.properties.get("user_id")
        if user_id is not None:
            self._check_user(user_id)
        number, self._next_publish = self._next_publish, self._next_publish + 1
        self._unconfirmed[number] = Unconfirmed(link, delivery_id, settled)
        link.unconfirmed += 1
        yield Publish(
            self.id,
            place.exchange,
            message.subject or "" if place.routing_key is None else place.routing_key,
            message.properties,
            body,
            mandatory=True,
            amqp10=message.amqp10,
        )
        self._count_delivery(link)

    def _place_of(self, link: IncomingLink, message: Sections) -> Place:
        """Return where a message goes. Raises ``RoutingFault`` and ``LinkFault``."""
        if link.target is None:
            place = addresses.place_of_message(message.to)
            if place.exchange not in self._vhost.exchanges:
                raise RoutingFault(errors.not_found("exchange", place.exchange, self._vhost.name), anonymous=True)
            if self._vhost.exchanges[place.exchange].internal:
                raise errors.internal_exchange(place.exchange, self._vhost.name)
            return place
        if link.target.exchange not in self._vhost.exchanges:
            raise RoutingFault(errors.not_found("exchange", link.target.exchange, self._vhost.name), anonymous=False)
        return link.target

    def _refuse_publish(self, link: IncomingLink, transfer: Transfer, fault: RoutingFault) -> None:
        """Refuse a message that has nowhere to go, or detach its link. Raises ``LinkFault``."""
        delivery_id, cause = _number(transfer.delivery_id), fault.fault
        cause.detaches = True
        if not fault.anonymous:
            if not transfer.settled:
                self._send_disposition([delivery_id], Released())
            raise cause
        if transfer.settled:
            cause.info = {symbol("delivery-tag"): transfer.delivery_tag}
            raise cause
        error = Error(condition=cause.condition, description=cause.description)
        self._send_disposition([delivery_id], Rejected(error=error))
        self._count_delivery(link)

    def _check_user(self, user_id: Any) -> None:
        user = self._settings.broker.connections[self.id[0]].user
        if not user.may_send_as(user_id):
            refusal = amqp_errors.wrong_user_id(user_id, user.name)
            raise LinkFault("amqp:unauthorized-access", refusal.explanation)

    def _count_delivery(self, link: IncomingLink) -> None:
        link.delivery_count = _sum(link.delivery_count, 1)
        link.credit -= 1
        self._grant(link)

    def _count_transfer(self) -> bool:
        """Count a transfer against the window; return whether the window opens again."""
        self._next_incoming_id = _sum(self._next_incoming_id, 1)
        self._incoming_window -= 1
        self._remote_outgoing_window -= 1
        tolerated = INCOMING_WINDOW if self.window_closed else 0
        if self._incoming_window < -tolerated:
            text = f"incoming window violation (tolerated excess tranfers: {tolerated})"
            raise SessionFault("amqp:session:window-violation", text)
        opens = self._incoming_window <= INCOMING_WINDOW // 2 and not self.window_closed
        if opens:
            self._incoming_window = INCOMING_WINDOW
        return opens

    def close_window(self, closed: bool) -> None:
        """Take no messages from now on, or take them again, and say so."""
        self.window_closed = closed
        self._incoming_window = 0 if closed else INCOMING_WINDOW
        self._send_flow()

    def _grant(self, link: IncomingLink) -> None:
        """Grant credit again once half of it is used, unless too much is unconfirmed."""
        if link.credit <= LINK_CREDIT // 2 and link.unconfirmed < LINK_CREDIT and link.handle in self._incoming:
            link.credit = LINK_CREDIT
            self._send_flow(handle=link.handle, delivery_count=link.delivery_count, link_credit=link.credit)

    def _confirmed(self, number: int, outcome: Composite | None) -> None:
        """Settle a publish: by default it is accepted, together with others."""
        publish = self._unconfirmed.pop(number, None)
        if publish is None:
            return
        publish.link.unconfirmed -= 1
        if not publish.settled:
            if publish.unroutable:
                outcome = Released()
            if outcome is None:
                self._accepted.append(publish.delivery_id)
            else:
                self._send_disposition([publish.delivery_id], outcome)
        self._grant(publish.link)

    def _refusal(self, queue: str) -> Composite:
        if not self._release.amqp10_refusals_say_why:
            return Rejected()
        info = {symbol("queue"): queue, symbol("reason"): symbol("maxlen")}
        text = f"queue '{queue}' exceeded maximum length"
        return Rejected(error=Error(condition="amqp:resource-limit-exceeded", description=text, info=info))

    def _send_disposition(
        self, delivery_ids: list[int], outcome: Composite, *, role: bool = RECEIVER, settled: bool = True
    ) -> None:
        for first, last in _ranges(delivery_ids):
            last_id = None if last == first else last
            self._send(Disposition(role=role, first=first, last=last_id, settled=settled, state=outcome))

    def _send_dispositions(self) -> None:
        if self._accepted:
            self._send_disposition(self._accepted, Accepted())
            self._accepted.clear()

    # Consuming

    def _attach_consumer(self, attach: Attach) -> Iterator[Command]:
        source, handle = attach.source, _number(attach.handle)
        if not isinstance(source, Source):
            if self._release.amqp10_faults_of_links == "end the session":
                raise SessionFault("amqp:internal-error", "function_clause")
            raise errors.attach_refused(Atom("source_required"), self._release)
        settled = attach.snd_settle_mode == SETTLED
        outcomes = _outcomes(source)
        if source.dynamic:
            kind = addresses.dynamic_kind(source, self._release, settled=settled)
            if kind == addresses.VOLATILE_QUEUE:
                yield from self._attach_to_answers(attach, source)
                return
            source = yield from self._temporary(source, handle)
        place = addresses.source_of(source, self._release)
        if place.declares is not None and place.declares not in self._vhost.queues:
            yield DeclareQueue(channel=self.id, queue=place.declares, durable=bool(source.durable))
        name = place.queue or ""
        queue = self._vhost.queues.get(name)
        if queue is None:
            raise errors.not_found("queue", name, self._vhost.name)
        if queue.owner is not None and queue.owner.id != self.id[0]:
            raise errors.locked(name, self._vhost.name)
        filters = read_filters(source.filter, self._release)
        is_stream = queue.definition.type == STREAM
        mode = source.distribution_mode
        if self._release.amqp10_link_capabilities:
            mode = "copy" if is_stream else "move"
        shown = msgspec.structs.replace(
            source, filter=filters.in_force, default_outcome=Released(), outcomes=outcomes, distribution_mode=mode
        )
        self._outgoing[handle] = OutgoingLink(
            handle=handle,
            queue=name,
            type=queue.definition.type,
            settled=settled,
            delivery_count=self._first_delivery_count,
            attach=self._answer(attach, shown, settled=settled, capabilities=self._capabilities(queue)),
            has_priorities="x-max-priority" in queue.definition.arguments,
            says_active=queue.definition.type == QUORUM and self._release.amqp10_links_say_active,
        )
        yield Consume(
            channel=self.id,
            queue=name,
            consumer_tag=str(handle),
            no_ack=settled,
            credited=True,
            arguments=_consumer_arguments(attach) | filters.arguments,
            filter=filters.expression,
        )

    def _attach_to_answers(self, attach: Attach, source: Source) -> Iterator[Command]:
        """Attach a link over which answers come: its address leads to nothing but the link."""
        handle = _number(attach.handle)
        shown = msgspec.structs.replace(
            source,
            timeout=0,
            dynamic_node_properties=addresses.NODE_PROPERTIES,
            distribution_mode="move",
            capabilities=self._node_capabilities(source, addresses.VOLATILE_QUEUE),
        )
        self._outgoing[handle] = OutgoingLink(
            handle=handle,
            queue="",
            type=CLASSIC,
            settled=True,
            delivery_count=self._first_delivery_count,
            attach=self._answer(attach, shown, settled=True),
        )
        yield Consume(channel=self.id, queue=REPLY_TO, consumer_tag=str(handle), no_ack=True, credited=True)

    def _answer(self, attach: Attach, source: Source, *, settled: bool, capabilities: Any = None) -> Attach:
        """Return the attach that answers a link from a source."""
        return Attach(
            name=attach.name,
            handle=attach.handle,
            role=SENDER,
            snd_settle_mode=SETTLED if settled else UNSETTLED,
            rcv_settle_mode=attach.rcv_settle_mode,
            source=source,
            initial_delivery_count=self._first_delivery_count,
            max_message_size=attach.max_message_size,
            offered_capabilities=capabilities,
        )

    def _node_capabilities(self, terminus: Source | Target, kind: str) -> Any:
        hidden = isinstance(terminus, Source) and self._release.amqp10_link_capabilities
        return None if hidden else symbols((kind,))

    def _temporary(self, terminus: _Terminus, handle: int) -> Generator[Command, None, _Terminus]:
        """Declare the queue of a dynamic source or target, and return that with the queue's address."""
        yield DeclareQueue(channel=self.id, exclusive=True)
        self._temporary_queues[handle] = self._declared
        return msgspec.structs.replace(
            terminus,
            address=f"/queues/{quote(self._declared, safe='')}",
            durable=0,
            expiry_policy="link-detach",
            timeout=0,
            dynamic_node_properties=addresses.NODE_PROPERTIES,
            capabilities=self._node_capabilities(terminus, addresses.TEMPORARY_QUEUE),
        )

    def _flow(self, flow: Flow, _payload: bytes) -> Iterator[Command]:
        self._open_window(flow)
        self.send_what_waits()
        if flow.handle is None:
            if flow.echo:
                self._send_flow()
            return
        pair, link = self._pair_of(flow.handle), self._outgoing.get(flow.handle)
        if link is not None:
            link.credit = self._credit_of(flow, link.delivery_count)
            link.drain, link.echo = bool(flow.drain), bool(flow.echo)
            link.is_stashed = self._waits(link)
            if not link.is_stashed:
                yield self._grant_queue(link)
        elif pair is not None:
            if pair.response_handle == flow.handle:
                self._grant_responses(pair, flow)
        elif flow.handle not in self._incoming:
            raise SessionFault("amqp:session:unattached-handle", f"Unattached link handle: {int(flow.handle)}")

    def _grant_queue(self, link: OutgoingLink) -> Command:
        """Return the command that lets the link's queue use the link's credit, or as much as it may at a time."""
        link.queue_credit = min(link.credit, QUEUE_CREDIT)
        return GrantCredit(self.id, str(link.handle), link.queue_credit, link.drain)

    def credit_for_queues(self) -> Iterator[Command]:
        """Let queues use the next part of the credit of links, where all that the last part brought has been sent.

        Source: rabbit_amqp_session.erl sent_pending_delivery, handle_credit_reply, pop_credit_req.
        """
        for link in list(self._outgoing.values()):
            wants = link.is_stashed or (link.credit and not link.queue_credit)
            if wants and not self._waits(link):
                link.is_stashed = False
                yield self._grant_queue(link)

    def _waits(self, link: OutgoingLink) -> bool:
        """Return whether something waits to be sent over the link."""
        return any(each.handle == link.handle for each in self._pending)

    def _open_window(self, flow: Flow) -> None:
        """Take over the window of the client. Raises ``SessionFault`` if it has seen what was not sent."""
        first = self._release.amqp10_first_ids[0] if flow.next_incoming_id is None else int(flow.next_incoming_id)
        if _difference(first, self._next_outgoing_id) > 0:
            raise SessionFault(
                "amqp:session:window-violation",
                f"next-incoming-id from FLOW ({first}) leads next-outgoing-id ({self._next_outgoing_id})",
            )
        self._remote_window = _difference(first, self._next_outgoing_id) + _addend(flow.incoming_window)
        self._next_incoming_id = _number(flow.next_outgoing_id)
        self._remote_outgoing_window = flow.outgoing_window or 0

    def _credit_of(self, flow: Flow, sent: int) -> int:
        first = self._first_delivery_count if flow.delivery_count is None else int(flow.delivery_count)
        return max(0, _difference(first, sent) + _addend(flow.link_credit))

    def _deliver(self, reply: Delivered) -> None:
        link = self._outgoing.get(int(reply.consumer_tag))
        if link is None:
            return
        encoded = self._messages.write(reply)
        transfer = Transfer(
            handle=link.handle,
            delivery_tag=self._delivery_tag(link, reply),
            message_format=0,
            settled=link.settled,
            more=self._false,
        )
        tag = None if link.settled else reply.delivery_tag
        self._pending.append(WaitingDelivery(link.handle, transfer, deque(self._parts(encoded)), tag))
        link.sent += 1
        link.delivery_count = _sum(link.delivery_count, 1)
        link.credit = max(0, link.credit - 1)
        link.queue_credit = max(0, link.queue_credit - 1)

    def _delivery_tag(self, link: OutgoingLink, reply: Delivered) -> bytes:
        """Return the tag by which the server's queue knows the delivery."""
        if link.type == STREAM:
            offset = int((reply.added or {})["x-stream-offset"])
            return offset.to_bytes(4 if offset <= UINT_MAX else 8)
        if link.type == CLASSIC:
            if link.settled or reply.place is None:
                return b""
            return erlang_pair(*reply.place) if link.has_priorities else (reply.place[1] & UINT_MAX).to_bytes(4)
        return link.sent.to_bytes(4)

    def _parts(self, encoded: bytes) -> Iterator[tuple[bytes, bool]]:
        """Yield what goes into each frame, and whether more follows."""
        room = len(encoded) if self.frame_max is None else self.frame_max - TRANSFER_BYTES
        for start in range(0, len(encoded), room or 1):
            yield encoded[start : start + room], start + room < len(encoded)

    def send_what_waits(self) -> None:
        """Send the deliveries that the client's window has room for, and the flows behind them."""
        self._send_dispositions()
        while self._pending:
            waiting = self._pending[0]
            if isinstance(waiting, Flow):
                self._fill_flow(waiting)
                self._send(waiting)
            elif not self._send_parts(waiting):
                return
            self._pending.popleft()

    def _send_parts(self, waiting: WaitingDelivery) -> bool:
        """Send what the client's window has room for of a delivery; return whether that was the rest of it."""
        transfer = waiting.transfer
        while waiting.parts and self._remote_window > 0:
            if transfer.delivery_id is None:
                transfer.delivery_id = self._next_delivery_id
                self._next_delivery_id = _sum(self._next_delivery_id, 1)
                if waiting.delivery_tag is not None:
                    self._unsettled[transfer.delivery_id] = Unsettled(waiting.handle, waiting.delivery_tag)
            self._next_outgoing_id = _sum(self._next_outgoing_id, 1)
            self._remote_window -= 1
            part, more = waiting.parts.popleft()
            self._send(msgspec.structs.replace(transfer, more=True) if more else transfer, part)
        return not waiting.parts

    def _disposition(self, disposition: Disposition, _payload: bytes) -> Iterator[Command]:
        if disposition.role == SENDER:
            raise SessionFault("amqp:internal-error", "Unexpected frame disposition")
        if not self._unsettled:
            return
        first = _number(disposition.first)
        count = 1 if disposition.last is None else _difference(int(disposition.last), first) + 1
        if count < 1:
            raise SessionFault("amqp:internal-error", "{case_clause,greater}")
        found = [id for id in self._unsettled if 0 <= _difference(id, first) < count]
        tags = tuple(self._unsettled.pop(id).delivery_tag for id in found)
        yield self._settlement(tags, disposition.state)
        if disposition.settled is None:
            raise SessionFault("amqp:internal-error", "{case_clause,undefined}")  # the server does not know the default
        if not disposition.settled:
            self._send(msgspec.structs.replace(disposition, role=SENDER, settled=True))

    def _settlement(self, tags: tuple[int, ...], outcome: Any) -> Command:
        """Return the command of an outcome. Raises ``SessionFault``."""
        kind = _OUTCOMES.get(type(outcome))
        if kind is None:
            raise SessionFault("amqp:invalid-field", f"Unrecognised state: {_shown(outcome)} in DISPOSITION")
        if not isinstance(outcome, Modified):
            return Settle(self.id, tags, kind)
        return Settle(
            self.id,
            tags,
            kind,
            delivery_failed=bool(outcome.delivery_failed),
            undeliverable_here=bool(outcome.undeliverable_here),
            annotations=self._messages.annotations(outcome.message_annotations),
        )

    def _forget_deliveries(self, handle: int) -> None:
        self._unsettled = {id: held for id, held in self._unsettled.items() if held.handle != handle}
        self._pending = deque(each for each in self._pending if each.handle != handle)

    # Replies in, frames out

    def reply(self, reply: Reply) -> None:
        """Send a reply of the broker, unless the session failed over a message: its connection closes then."""
        answer = _REPLIES.get(type(reply))
        if answer is not None and (self.id in self._settings.broker.channels or self._comes_alone(reply)):
            answer(self, reply)

    def _comes_alone(self, reply: Reply) -> bool:
        """Return whether a classic queue delivers: it sends each message by itself, other queues several at once.

        Over a message that it cannot convert, a session loses those that came with it.
        """
        link = self._outgoing.get(int(reply.consumer_tag)) if isinstance(reply, Delivered) else None
        return link is not None and link.type == CLASSIC

    def _attached(self, reply: replies.Consuming) -> None:
        link = self._outgoing[int(reply.consumer_tag)]
        if not link.queue:
            key = self._settings.broker.channels[self.id].reply_key
            link.attach.source.address = f"/queues/{quote(key, safe='')}"
        self._send(link.attach)

    def _queue_declared(self, reply: replies.QueueDeclared) -> None:
        self._declared = reply.queue

    def _returned(self, _reply: replies.Returned) -> None:
        self._unconfirmed[self._next_publish - 1].unroutable = True

    def _say_credit(self, reply: replies.CreditState) -> None:
        """Answer a flow that drains, or asks for an answer, behind the deliveries that wait."""
        link = self._outgoing.get(int(reply.consumer_tag))
        if link is None or (link.credit and not link.queue_credit):  # the queue may use more before there is an answer
            return
        changed = self._activity(link)
        if link.drain or link.echo or changed:
            self._queue_flow(link, reply.available, changed)

    def _say_active(self, reply: replies.ActivityChanged) -> None:
        """Say whether the link is the single active one of its queue from now on."""
        link = self._outgoing.get(int(reply.consumer_tag))
        if link is not None and link.is_active != reply.active:
            link.is_active = reply.active
            self._queue_flow(link, reply.available, {symbol("rabbitmq:active"): reply.active})

    def _say_released(self, reply: replies.DeliveriesReleased) -> None:
        """Say which deliveries the client no longer has; it settles them as it likes. Source: AMQP 1.0, 2.6.12."""
        self.send_what_waits()
        released = set(reply.delivery_tags)
        ids = [id for id, delivery in self._unsettled.items() if delivery.delivery_tag in released]
        for link in {self._unsettled[id].handle for id in ids} & self._outgoing.keys():
            self._outgoing[link].was_late = True
        self._send_disposition(ids, Released(), role=SENDER, settled=False)

    def _queue_flow(self, link: OutgoingLink, available: int, changed: dict[Any, Any] | None) -> None:
        """Have a flow sent behind the deliveries that wait."""
        if link.drain:
            link.delivery_count, link.credit = _sum(link.delivery_count, link.credit), 0
        flow = Flow(
            handle=link.handle,
            delivery_count=link.delivery_count,
            link_credit=link.credit,
            available=available,
            drain=link.drain or self._false,
            echo=self._false,
            properties=changed,
        )
        link.drain = link.echo = False
        self._pending.append(flow)

    def _activity(self, link: OutgoingLink) -> dict[Any, Any] | None:
        """Return how the link's place in a quorum queue has changed: whether it is active."""
        consumer = self._settings.broker.channels[self.id].consumers.get(str(link.handle))
        if consumer is None or not link.says_active:
            return None
        queue = consumer.queue
        active = not queue.single_active or queue.active_single is consumer
        if link.is_active == active:
            return None
        link.is_active = active
        return {symbol("rabbitmq:active"): active}

    def _lose_source(self, reply: replies.ConsumerCancelled) -> None:
        handle = int(reply.consumer_tag)
        if self._outgoing.pop(handle, None) is not None:
            self._forget_deliveries(handle)
            self._send_detach(handle, LinkFault("amqp:resource-deleted", ""))

    def _lose_target(self, reply: replies.QueueGone) -> None:
        """Detach the links that send to a queue that is gone."""
        gone = [
            link for link in self._incoming.values() if link.target is not None and link.target.queue == reply.queue
        ]
        for link in gone:
            del self._incoming[link.handle]
            self._send_detach(link.handle, LinkFault("amqp:resource-deleted", ""))

    def refused(self, reply: ChannelClosed) -> None:
        """End the session, which the broker has closed, behind what waits to be sent."""
        self.send_what_waits()
        text = (reply.uncut or reply.text).partition(" - ")[2]
        self.fail(SessionFault(errors.condition_of(reply.code), text))

    def fail(self, fault: SessionFault) -> Command:
        """End the session because of the client; return the command that informs the broker."""
        self._send(End(error=Error(condition=fault.condition, description=fault.description)))
        self.ended = True
        return CloseChannel(self.id)

    def _send_flow(self, **fields: Any) -> None:
        """Send a flow with the state of the session and that of a link."""
        flow = Flow(**fields)
        self._fill_flow(flow)
        self._send(flow)

    def _fill_flow(self, flow: Flow) -> None:
        flow.next_incoming_id = self._next_incoming_id
        flow.incoming_window = max(0, self._incoming_window)
        flow.next_outgoing_id = self._next_outgoing_id
        flow.outgoing_window = UINT_MAX

    def facts(self) -> dict[str, Any]:
        """Return what the management API shows of the session and its links. Source: rabbit_amqp_session.erl infos."""
        pairs = self._pairs.items()
        shown = {
            "channel_number": self.id[1],
            "handle_max": self._handle_max,
            "next_incoming_id": self._next_incoming_id,
            "incoming_window": self._incoming_window,
            "next_outgoing_id": self._next_outgoing_id,
            "remote_incoming_window": self._remote_window,
            "remote_outgoing_window": self._remote_outgoing_window,
            "outgoing_unsettled_deliveries": len(self._unsettled),
            "incoming_links": [
                *(self._request_facts(name, pair) for name, pair in pairs if pair.request_handle is not None),
                *(self._incoming_facts(link) for _, link in sorted(self._incoming.items())),
            ],
            "outgoing_links": [
                *(_response_facts(name, pair) for name, pair in pairs if pair.response_handle is not None),
                *(_outgoing_facts(link) for _, link in sorted(self._outgoing.items())),
            ],
        }
        return {name: _native(value) for name, value in shown.items()}

    def _request_facts(self, name: str, pair: ManagementPair) -> dict[str, Any]:
        return {
            "handle": pair.request_handle,
            "link_name": name,
            "snd_settle_mode": _SETTLE_MODES[SETTLED],
            "target_address": management.ADDRESS,
            "max_message_size": self._settings.message_max_bytes,
            "delivery_count": pair.delivery_count,
            "credit": pair.credit,
            "unconfirmed_messages": 0,
        }

    def _incoming_facts(self, link: IncomingLink) -> dict[str, Any]:
        return {
            "handle": link.handle,
            "link_name": link.name,
            "snd_settle_mode": _SETTLE_MODES[link.settle_mode],
            "target_address": link.address,
            "max_message_size": self._settings.message_max_bytes,
            "delivery_count": link.delivery_count,
            "credit": link.credit,
            "unconfirmed_messages": link.unconfirmed,
        }

    @property
    def _vhost(self) -> VirtualHost:
        return self._settings.broker.connections[self.id[0]].vhost


_ACTS: dict[type[Composite], Callable[[Session, Any, bytes], Iterator[Command]]] = {
    Begin: Session._begin,
    Attach: Session._attach,
    Flow: Session._flow,
    Transfer: Session._transfer,
    Disposition: Session._disposition,
    Detach: Session._detach,
    End: Session._end,
}
_REPLIES: dict[type[Reply], Callable[[Session, Any], None]] = {
    Delivered: Session._deliver,
    replies.Consuming: Session._attached,
    replies.QueueDeclared: Session._queue_declared,
    replies.CreditState: Session._say_credit,
    replies.Returned: Session._returned,
    replies.Confirmed: lambda session, reply: session._confirmed(reply.delivery_tag, None),
    replies.Refused: lambda session, reply: session._confirmed(reply.delivery_tag, session._refusal(reply.queue)),
    replies.ConsumerCancelled: Session._lose_source,
    replies.QueueGone: Session._lose_target,
    replies.ActivityChanged: Session._say_active,
    replies.DeliveriesReleased: Session._say_released,
}
_OUTCOMES: dict[type[Any], Outcome] = {
    Accepted: "accepted",
    Rejected: "rejected",
    Released: "released",
    Modified: "modified",
}
_OUTCOME_NAMES = tuple(f"amqp:{name}:list" for name in ("accepted", "rejected", "released", "modified"))


_SETTLE_MODES = ("unsettled", "settled", "mixed")
UNLIMITED = "unlimited"


def _response_facts(name: str, pair: ManagementPair) -> dict[str, Any]:
    return {
        "handle": pair.response_handle,
        "link_name": name,
        "source_address": management.ADDRESS,
        "queue_name": "",
        "send_settled": True,
        "max_message_size": UNLIMITED,
        "filter": [],
        "delivery_count": pair.response_count,
        "credit": pair.response_credit,
        "consumer_timeout": False,
    }


def _outgoing_facts(link: OutgoingLink) -> dict[str, Any]:
    source = link.attach.source
    return {
        "handle": link.handle,
        "link_name": link.attach.name,
        "source_address": source.address,
        "queue_name": link.queue,
        "send_settled": link.settled,
        "max_message_size": link.attach.max_message_size or UNLIMITED,
        "filter": [
            {"name": str(name), "descriptor": str(each.descriptor), "value": _plain_filter(each.value)}
            for name, each in (source.filter or {}).items()
            if isinstance(each, Described)
        ],
        "delivery_count": link.delivery_count,
        "credit": link.credit,
        "consumer_timeout": link.was_late,
    }


def _plain_filter(value: Any) -> Any:
    """Return the value of a filter as JSON has it."""
    if isinstance(value, dict):
        return [{"key": str(key), "value": _plain_filter(each)} for key, each in value.items()]
    if isinstance(value, list | Array):
        return list(map(_plain_filter, value.elements if isinstance(value, Array) else value))
    return plain(value)


def _native(value: Any) -> Any:
    """Return a value without the number types of Proton, which JSON does not take."""
    if isinstance(value, dict):
        return {name: _native(each) for name, each in value.items()}
    if isinstance(value, list):
        return list(map(_native, value))
    return int(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _outcomes(source: Source) -> Any:
    """Return the outcomes that a source may have. Raises ``LinkFault`` for those that are not supported."""
    if source.outcomes is None:
        return symbols(_OUTCOME_NAMES)
    wanted = source.outcomes.elements if isinstance(source.outcomes, Array) else [source.outcomes]
    unknown = [each for each in wanted if str(each) not in _OUTCOME_NAMES]
    if unknown:
        raise errors.not_implemented(f"Outcomes not supported: {printed([erlang_term(each) for each in unknown])}")
    return source.outcomes


def _consumer_arguments(attach: Attach) -> dict[str, Any]:
    """Return what the properties of a link say to the queue."""
    properties = attach.properties or {}
    priority, timeout = properties.get(symbol("rabbitmq:priority")), properties.get(symbol("rabbitmq:consumer-timeout"))
    found = {"x-priority": int(priority)} if isinstance(priority, int32) else {}
    return found | ({"x-consumer-timeout": int(timeout)} if isinstance(timeout, uint) else {})


def _shown(value: Any) -> str:
    return "undefined" if value is None else printed(erlang_term(value))


def _number(value: int | None) -> int:
    if value is None:
        raise SessionFault("amqp:internal-error", "function_clause")
    return int(value)


# Sequence numbers of 32 bits. Source: RFC 1982, serial_number.erl.


def _sum(number: int, count: int) -> int:
    return (number + count) & UINT_MAX


def _addend(count: int | None) -> int:
    """Return what may be added to a number. Raises ``SessionFault`` for more, over which the server fails."""
    if _number(count) >= 1 << 31:
        raise SessionFault("amqp:internal-error", "undefined_serial_addition")
    return _number(count)


def _difference(number: int, other: int) -> int:
    """Return how far a number is ahead of another; less than 0 if it is behind."""
    ahead = (number - other) & UINT_MAX
    return ahead if ahead < 1 << 31 else ahead - (1 << 32)


def _ranges(numbers: list[int]) -> Iterator[tuple[int, int]]:
    """Yield the first and the last of numbers that follow each other."""
    first = last = numbers[0]
    for number in numbers[1:]:
        if number != _sum(last, 1):
            yield first, last
            first = number
        last = number
    yield first, last
