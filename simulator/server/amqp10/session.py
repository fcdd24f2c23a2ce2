"""A session of AMQP 1.0, which is a channel of the broker: frames become commands, and replies become frames.

A link whose source is a queue is a consumer with credit, tagged by its handle; what comes in over a link to an
exchange or a queue is published with confirms, and each confirm settles the delivery.

Source: rabbit_amqp_session.erl.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from proton import symbol

from dlx.amqp_errors import Refusal
from simulator.broker import replies
from simulator.broker.commands import (
    Ack,
    Cancel,
    ChannelId,
    CheckTarget,
    CloseChannel,
    Command,
    Consume,
    GrantCredit,
    Modify,
    OpenChannel,
    Publish,
    Reject,
    SelectConfirms,
)
from simulator.broker.replies import ChannelClosed, Delivered, Reply
from simulator.server.amqp.connection import ServerSettings
from simulator.server.amqp10 import addresses, management
from simulator.server.amqp10.errors import LinkFault, SessionFault, condition_of
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
)
from simulator.server.amqp10.messages import MessageCodec

SENDER, RECEIVER = False, True
SETTLED = 1  # snd-settle-mode
LINK_CREDIT = 170  # rabbit_amqp_session.erl DEFAULT_MAX_LINK_CREDIT
INCOMING_WINDOW = 400
UINT_MAX = 2**32 - 1
Send = Callable[..., None]


class IncomingLink(msgspec.Struct, kw_only=True, eq=False):
    """A link over which the client publishes. ``exchange`` is ``None`` where each message says where it goes."""

    handle: int
    exchange: str | None
    routing_key: str | None
    delivery_count: int
    credit: int = LINK_CREDIT
    unconfirmed: int = 0
    fragments: list[bytes] = msgspec.field(default_factory=list)
    first: Transfer | None = None


class OutgoingLink(msgspec.Struct, kw_only=True, eq=False):
    """A link over which the client consumes a queue. ``attach`` is its answer."""

    handle: int
    queue: str
    settled: bool
    attach: Attach
    delivery_count: int = 0
    credit: int = 0
    drain: bool = False
    echo: bool = False


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
    """

    def __init__(
        self, channel: ChannelId, settings: ServerSettings, codec: Codec, messages: MessageCodec, send: Send
    ) -> None:
        self.id = channel
        self.ended = False
        self._settings = settings
        self._codec = codec
        self._messages = messages
        self._send = send
        self._incoming: dict[int, IncomingLink] = {}
        self._outgoing: dict[int, OutgoingLink] = {}
        self._next_incoming_id = 0
        self._incoming_window = INCOMING_WINDOW
        self._next_outgoing_id = 0
        self._remote_window = 0
        self._next_delivery_id = 0
        self._unsettled: dict[int, Unsettled] = {}
        self._next_publish = 1
        self._unconfirmed: dict[int, Unconfirmed] = {}
        self._pending: deque[tuple[OutgoingLink | None, Transfer, bytes]] = deque()
        self._pairs: dict[str, ManagementPair] = {}
        self.management = management.Management((channel[0], channel[1] + management.CHANNELS), settings.broker, codec)

    # Frames in, commands out

    def frame(self, performative: Composite, payload: bytes) -> Iterator[Command]:
        """Yield the commands of one frame. Raises ``SessionFault``."""
        if self.ended:
            return
        act = _ACTS.get(type(performative))
        if act is None:
            raise SessionFault("amqp:internal-error", f"Unexpected frame {type(performative).__name__.lower()}")
        yield from act(self, performative, payload)

    def _begin(self, begin: Begin, _payload: bytes) -> Iterator[Command]:
        self._next_incoming_id = begin.next_outgoing_id or 0
        self._remote_window = begin.incoming_window or 0
        yield OpenChannel(self.id)
        yield SelectConfirms(self.id)
        handle_max = min(UINT_MAX if begin.handle_max is None else begin.handle_max, 255)
        self._send(
            Begin(
                remote_channel=self.id[1],
                next_outgoing_id=0,
                incoming_window=INCOMING_WINDOW,
                outgoing_window=UINT_MAX,
                handle_max=handle_max,
            )
        )

    def _attach(self, attach: Attach, _payload: bytes) -> Iterator[Command]:
        try:
            if self._is_management(attach):
                self._attach_management(attach)
            elif attach.role == SENDER:
                yield from self._attach_publisher(attach)
            else:
                yield from self._attach_consumer(attach)
        except LinkFault as fault:
            self._refuse_link(attach, fault)

    def _is_management(self, attach: Attach) -> bool:
        terminus = attach.target if attach.role == SENDER else attach.source
        return getattr(terminus, "address", None) == management.ADDRESS

    def _attach_management(self, attach: Attach) -> None:
        """Attach one of the two links over which requests and responses go. Raises ``LinkFault``."""
        if (attach.properties or {}).get(symbol("paired")) is not True:
            raise LinkFault("amqp:invalid-field", "Link property 'paired' is not set to boolean value 'true'")
        name, handle, is_request = attach.name or "", _number(attach.handle), attach.role == SENDER
        pair = self._pairs.setdefault(name, ManagementPair())
        if is_request:
            pair.request_handle, pair.delivery_count = handle, attach.initial_delivery_count or 0
        else:
            pair.response_handle = handle
        self._send(
            Attach(
                name=name,
                handle=handle,
                role=not attach.role,
                snd_settle_mode=SETTLED,
                rcv_settle_mode=0 if is_request else attach.rcv_settle_mode,
                source=attach.source,
                target=attach.target,
                initial_delivery_count=None if is_request else 0,
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
        delivery_id, self._next_delivery_id = self._next_delivery_id, self._next_delivery_id + 1
        transfer = Transfer(
            handle=pair.response_handle,
            delivery_id=delivery_id,
            delivery_tag=b"",
            message_format=0,
            settled=True,
            more=False,
        )
        self._pending.append((None, transfer, response))
        pair.response_credit -= 1
        pair.response_count += 1
        pair.delivery_count += 1
        pair.credit -= 1
        if pair.credit <= management.CREDIT // 2:
            pair.credit = management.CREDIT
            self._send_flow(handle=pair.request_handle, delivery_count=pair.delivery_count, link_credit=pair.credit)
        self.send_what_waits()

    def _grant_responses(self, pair: ManagementPair, flow: Flow) -> None:
        pair.response_credit = (flow.delivery_count or 0) + (flow.link_credit or 0) - pair.response_count
        if flow.drain:
            pair.response_count, pair.response_credit = pair.response_count + pair.response_credit, 0
        if flow.drain or flow.echo:
            self._send_flow(
                handle=flow.handle,
                delivery_count=pair.response_count,
                link_credit=pair.response_credit,
                available=0,
                drain=bool(flow.drain),
            )

    def _attach_publisher(self, attach: Attach) -> Iterator[Command]:
        target = attach.target if isinstance(attach.target, Target) else Target()
        exchange, key = addresses.target_of(target.address)
        if exchange is not None:
            yield CheckTarget(self.id, exchange)
            if self.ended:
                return
        link = IncomingLink(
            handle=_number(attach.handle),
            exchange=exchange,
            routing_key=key,
            delivery_count=attach.initial_delivery_count or 0,
        )
        self._incoming[link.handle] = link
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
            )
        )
        self._send_flow(handle=link.handle, delivery_count=link.delivery_count, link_credit=link.credit)

    def _attach_consumer(self, attach: Attach) -> Iterator[Command]:
        source = attach.source if isinstance(attach.source, Source) else Source()
        handle, settled = _number(attach.handle), attach.snd_settle_mode == SETTLED
        filters = read_filters(source.filter, self._settings.release)
        link = OutgoingLink(
            handle=handle,
            queue=addresses.queue_of(source.address),
            settled=settled,
            attach=Attach(
                name=attach.name,
                handle=handle,
                role=SENDER,
                snd_settle_mode=SETTLED if settled else 0,
                rcv_settle_mode=attach.rcv_settle_mode,
                source=msgspec.structs.replace(source, filter=filters.in_force),
                target=attach.target,
                initial_delivery_count=0,
                max_message_size=attach.max_message_size,
            ),
        )
        self._outgoing[handle] = link
        priority = (attach.properties or {}).get(symbol("rabbitmq:priority"))
        yield Consume(
            channel=self.id,
            queue=link.queue,
            consumer_tag=str(handle),
            no_ack=settled,
            credited=True,
            arguments=filters.arguments | ({} if priority is None else {"x-priority": int(priority)}),
            filter=filters.expression,
        )

    def _refuse_link(self, attach: Attach, fault: LinkFault) -> None:
        """Answer with the attach of a link that has no terminus, and detach it."""
        refused = Attach(
            name=attach.name,
            handle=attach.handle,
            role=not attach.role,
            snd_settle_mode=attach.snd_settle_mode,
            rcv_settle_mode=attach.rcv_settle_mode,
            source=attach.source if attach.role == SENDER else None,
            target=attach.target if attach.role == RECEIVER else None,
            initial_delivery_count=0 if attach.role == RECEIVER else None,
        )
        self._send(refused)
        self._send_detach(_number(attach.handle), fault)

    def _send_detach(self, handle: int, fault: LinkFault | None = None) -> None:
        error = None if fault is None else Error(condition=fault.condition, description=fault.description)
        self._send(Detach(handle=handle, closed=True, error=error))

    def _detach(self, detach: Detach, _payload: bytes) -> Iterator[Command]:
        handle = _number(detach.handle)
        self._incoming.pop(handle, None)
        for pair in self._pairs.values():
            pair.forget(handle)
        link = self._outgoing.pop(handle, None)
        if link is not None:
            yield Cancel(self.id, str(handle))
            for delivery_id in [id for id, held in self._unsettled.items() if held.handle == handle]:
                held = self._unsettled.pop(delivery_id)
                yield Modify(self.id, held.delivery_tag, delivery_failed=True, lost=True)
        self._send(Detach(handle=handle, closed=detach.closed))

    def _end(self, _end: End, _payload: bytes) -> Iterator[Command]:
        yield CloseChannel(self.id)
        self._send(End())
        self.ended = True

    # Publishing

    def _transfer(self, transfer: Transfer, payload: bytes) -> Iterator[Command]:
        self._count_transfer()
        pair = next((pair for pair in self._pairs.values() if pair.request_handle == transfer.handle), None)
        if pair is not None:
            yield from self._manage(pair, payload)
            return
        link = self._incoming.get(_number(transfer.handle))
        if link is None:
            raise SessionFault("amqp:session:unattached-handle", f"Unknown link handle: {transfer.handle}")
        if transfer.aborted:
            link.fragments.clear()
            link.first = None
            return
        link.first = link.first or transfer
        link.fragments.append(payload)
        if transfer.more:
            return
        first, encoded = link.first, b"".join(link.fragments)
        link.first = None
        link.fragments.clear()
        try:
            yield from self._publish(link, first, encoded)
        except LinkFault as fault:
            del self._incoming[link.handle]
            self._send_detach(link.handle, fault)

    def _publish(self, link: IncomingLink, transfer: Transfer, encoded: bytes) -> Iterator[Command]:
        message = self._messages.read(encoded)
        exchange, key = link.exchange, link.routing_key
        if exchange is None:
            exchange, key = addresses.address_of_message(message.to)
        number, self._next_publish = self._next_publish, self._next_publish + 1
        settled = bool(transfer.settled)
        link.delivery_count += 1
        link.credit -= 1
        link.unconfirmed += 1
        self._unconfirmed[number] = Unconfirmed(link, _number(transfer.delivery_id), settled)
        yield Publish(
            self.id,
            exchange,
            key or "",
            message.properties,
            message.body,
            mandatory=True,
            amqp10=message.amqp10,
        )
        self._grant(link)

    def _count_transfer(self) -> None:
        self._next_incoming_id += 1
        self._incoming_window -= 1
        if self._incoming_window < 0:
            raise SessionFault(
                "amqp:session:window-violation", "incoming window violation (tolerated excess tranfers: 0)"
            )
        if self._incoming_window <= INCOMING_WINDOW // 2:
            self._incoming_window = INCOMING_WINDOW
            self._send_flow()

    def _grant(self, link: IncomingLink) -> None:
        """Grant credit again once half of it is used, unless too much is unconfirmed."""
        if link.credit <= LINK_CREDIT // 2 and link.unconfirmed < LINK_CREDIT and link.handle in self._incoming:
            link.credit = LINK_CREDIT
            self._send_flow(handle=link.handle, delivery_count=link.delivery_count, link_credit=link.credit)

    def _settle_publish(self, number: int, outcome: Composite) -> None:
        publish = self._unconfirmed.pop(number, None)
        if publish is None:
            return
        publish.link.unconfirmed -= 1
        if not publish.settled:
            state = Released() if publish.unroutable else outcome
            self._send(
                Disposition(
                    role=RECEIVER,
                    first=publish.delivery_id,
                    last=publish.delivery_id,
                    settled=True,
                    state=state,
                )
            )
        self._grant(publish.link)

    # Consuming

    def _flow(self, flow: Flow, _payload: bytes) -> Iterator[Command]:
        first = 0 if flow.next_incoming_id is None else flow.next_incoming_id
        self._remote_window = first + (flow.incoming_window or 0) - self._next_outgoing_id
        self.send_what_waits()
        if flow.handle is None:
            if flow.echo:
                self._send_flow()
            return
        pair = next((pair for pair in self._pairs.values() if pair.response_handle == flow.handle), None)
        if pair is not None:
            self._grant_responses(pair, flow)
            return
        link = self._outgoing.get(flow.handle)
        if link is None:
            if flow.handle not in self._incoming:
                raise SessionFault("amqp:session:unattached-handle", f"Unattached link handle: {flow.handle}")
            return
        link.credit = (flow.delivery_count or 0) + (flow.link_credit or 0) - link.delivery_count
        link.drain, link.echo = bool(flow.drain), bool(flow.echo)
        yield GrantCredit(self.id, str(link.handle), max(0, link.credit), link.drain)

    def _deliver(self, reply: Delivered) -> None:
        link = self._outgoing[int(reply.consumer_tag)]
        delivery_id, self._next_delivery_id = self._next_delivery_id, self._next_delivery_id + 1
        if not link.settled:
            self._unsettled[delivery_id] = Unsettled(link.handle, reply.delivery_tag)
        transfer = Transfer(
            handle=link.handle,
            delivery_id=delivery_id,
            delivery_tag=reply.delivery_tag.to_bytes(4),
            message_format=0,
            settled=link.settled,
            more=False,
        )
        self._pending.append((link, transfer, self._messages.write(reply)))
        link.delivery_count += 1
        link.credit -= 1
        self.send_what_waits()

    def send_what_waits(self) -> None:
        """Send the deliveries that the client's window has room for."""
        while self._pending and self._remote_window > 0:
            _, transfer, encoded = self._pending.popleft()
            self._send(transfer, encoded)
            self._next_outgoing_id += 1
            self._remote_window -= 1

    def _disposition(self, disposition: Disposition, _payload: bytes) -> Iterator[Command]:
        if disposition.role == SENDER:
            return
        first = _number(disposition.first)
        last = first if disposition.last is None else disposition.last
        for delivery_id in [id for id in self._unsettled if first <= id <= last]:
            held = self._unsettled.pop(delivery_id)
            yield self._settlement(held.delivery_tag, disposition.state)
        if not disposition.settled:
            self._send(Disposition(role=SENDER, first=first, last=last, settled=True, state=disposition.state))

    def _settlement(self, tag: int, outcome: Any) -> Command:
        """Return the command of an outcome; without one the delivery counts as released."""
        if isinstance(outcome, Accepted):
            return Ack(self.id, tag)
        if isinstance(outcome, Rejected):
            return Reject(self.id, tag, requeue=False)
        if isinstance(outcome, Modified):
            return Modify(
                self.id,
                tag,
                delivery_failed=bool(outcome.delivery_failed),
                undeliverable_here=bool(outcome.undeliverable_here),
                annotations=self._messages.annotations(outcome.message_annotations),
            )
        if outcome is None or isinstance(outcome, Released):
            return Modify(self.id, tag)
        raise SessionFault("amqp:invalid-field", f"Unrecognised state: {outcome}")

    # Replies in, frames out

    def reply(self, reply: Reply) -> None:
        """Send a reply of the broker."""
        kind = type(reply)
        if kind is Delivered:
            self._deliver(reply)  # type: ignore[arg-type]
        elif kind is replies.Consuming:
            self._send(self._outgoing[int(reply.consumer_tag)].attach)  # type: ignore[attr-defined]
        elif kind is replies.CreditState:
            self._say_credit(reply)  # type: ignore[arg-type]
        elif kind is replies.Returned:
            self._unconfirmed[self._next_publish - 1].unroutable = True
        elif kind is replies.Confirmed:
            self._settle_publish(reply.delivery_tag, Accepted())  # type: ignore[attr-defined]
        elif kind is replies.Refused:
            self._settle_publish(reply.delivery_tag, Rejected())  # type: ignore[attr-defined]
        elif kind is replies.ConsumerCancelled:
            self._lose_source(int(reply.consumer_tag))  # type: ignore[attr-defined]

    def _say_credit(self, reply: replies.CreditState) -> None:
        link = self._outgoing.get(int(reply.consumer_tag))
        if link is None:
            return
        if link.drain:
            link.delivery_count += max(0, link.credit)
            link.credit, link.drain = 0, False
            self._send_flow(
                handle=link.handle,
                delivery_count=link.delivery_count,
                link_credit=0,
                available=reply.available,
                drain=True,
                echo=False,
            )
        elif link.echo:
            self._send_flow(
                handle=link.handle,
                delivery_count=link.delivery_count,
                link_credit=max(0, link.credit),
                available=reply.available,
            )

    def _lose_source(self, handle: int) -> None:
        if self._outgoing.pop(handle, None) is not None:
            self._unsettled = {id: held for id, held in self._unsettled.items() if held.handle != handle}
            self._send_detach(handle, LinkFault("amqp:resource-deleted", ""))

    def refused(self, reply: ChannelClosed) -> None:
        """End the session, which the broker has closed."""
        condition, description = condition_of(Refusal(reply.code, (reply.uncut or reply.text).partition(" - ")[2]))
        self.fail(SessionFault(condition, description))

    def fail(self, fault: SessionFault) -> Command | None:
        """End the session because of the client; return the command that informs the broker."""
        self._send(End(error=Error(condition=fault.condition, description=fault.description)))
        self.ended = True
        return CloseChannel(self.id)

    def _send_flow(self, **fields: Any) -> None:
        """Send a flow with the state of the session and that of a link."""
        self._send(
            Flow(
                next_incoming_id=self._next_incoming_id,
                incoming_window=self._incoming_window,
                next_outgoing_id=self._next_outgoing_id,
                outgoing_window=UINT_MAX,
                **fields,
            )
        )


_ACTS: dict[type[Composite], Callable[[Session, Any, bytes], Iterator[Command]]] = {
    Begin: Session._begin,
    Attach: Session._attach,
    Flow: Session._flow,
    Transfer: Session._transfer,
    Disposition: Session._disposition,
    Detach: Session._detach,
    End: Session._end,
}


def _number(value: int | None) -> int:
    if value is None:
        raise SessionFault("amqp:invalid-field", "a mandatory field is missing")
    return int(value)
