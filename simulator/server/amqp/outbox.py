"""The outbox of a connection: methods, deliveries and confirms that wait to be sent, as bytes in their order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from simulator.broker import replies
from simulator.broker.replies import Confirmed, Delivered, Got, Refused, Reply, Returned
from simulator.server.amqp.contents import DeliveryEncoder, content, delivery
from simulator.server.amqp.frames import METHOD, frame
from simulator.server.amqp.methods import INDICES, encode_method, short_string


class ChannelOutput:
    """The state that the outbox keeps for one channel.

    Attributes:
        number: of the channel.
        muted: the client wants no answer to its last method (nowait).
        confirms: publisher confirms that wait to be sent.
    """

    __slots__ = ("confirms", "muted", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        self.muted = False
        self.confirms = Confirms()


class Outbox:
    """Gathers the bytes that a connection has to send until the connection takes them.

    ``frame_max`` was negotiated with the client; ``told_of_cancels``: the client wants to
    know when its consumers are cancelled; ``latin_1_errors``: error texts are in Latin-1
    and not in UTF-8.
    """

    def __init__(self, contents: DeliveryEncoder, frame_max: int, *, latin_1_errors: bool) -> None:
        self.frame_max = frame_max
        self.told_of_cancels = False
        self._contents = contents
        self._latin_1_errors = latin_1_errors
        self._waiting: list[bytes] = []
        self._confirming: dict[ChannelOutput, None] = {}

    def take(self) -> bytes:
        """Return all that waits, and forget it."""
        self._send_confirms()
        data = b"".join(self._waiting)
        self._waiting.clear()
        return data

    def raw(self, data: bytes) -> None:
        """Send bytes as they are."""
        self._waiting.append(data)

    def send(self, number: int, method: str, fields: Mapping[str, Any]) -> None:
        """Send a method on the channel of that number."""
        self._send_confirms()
        self._waiting.append(frame(METHOD, number, encode_method(method, fields)))

    def send_close(self, number: int, closing: str, code: int, text: str, method: str = "") -> None:
        """Send channel.close or connection.close; ``method`` is the offending one."""
        class_id, method_id = INDICES.get(method, (0, 0))
        index = {"class_id": class_id, "method_id": method_id}
        if self._latin_1_errors and not text.isascii():
            text = text.encode("latin-1", "replace").decode(errors="surrogateescape")
        self.send(number, closing, {"reply_code": code, "reply_text": text, **index})

    def deliver(self, reply: Delivered) -> None:
        """Send ``basic.deliver``. It has a path of its own because servers send it most."""
        _, address, properties = self._contents.encoded(reply.message, reply.added)
        self._waiting.append(
            delivery(
                reply.channel[1],
                short_string(reply.consumer_tag),
                reply.delivery_tag,
                reply.redelivered,
                address,
                properties,
                reply.body,
                self.frame_max,
            )
        )

    def reply(self, channel: ChannelOutput, reply: Reply) -> None:
        """Send an answer on a channel. Raises ``KeyError`` for a reply that belongs to no channel."""
        write = _WRITERS[type(reply)]
        write(self, channel, reply)

    def forget(self, channel: ChannelOutput) -> None:
        """Forget a channel that is gone, and its confirms that wait."""
        self._confirming.pop(channel, None)

    def _confirm(self, channel: ChannelOutput, reply: Confirmed) -> None:
        if reply.multiple:
            channel.confirms.answered_up_to(reply.delivery_tag)
        elif channel.confirms.confirm(reply.delivery_tag):
            self._confirming[channel] = None
            return
        self._ack(channel, reply.delivery_tag, reply.multiple)

    def _refuse(self, channel: ChannelOutput, reply: Refused) -> None:
        channel.confirms.refuse(reply.delivery_tag)
        self.send(channel.number, "basic.nack", {"delivery_tag": reply.delivery_tag, "multiple": reply.multiple})

    def _send_confirms(self) -> None:
        for channel in self._confirming:
            found = channel.confirms.take()
            if found is not None:
                self._ack(channel, *found)
        self._confirming.clear()

    def _ack(self, channel: ChannelOutput, number: int, multiple: bool) -> None:
        method = encode_method("basic.ack", {"delivery_tag": number, "multiple": multiple})
        self._waiting.append(frame(METHOD, channel.number, method))

    def _content(self, number: int, method: str, fields: dict[str, Any], reply: Got | Returned) -> None:
        message = reply.message
        _, _, properties = self._contents.encoded(message, getattr(reply, "added", None))
        self.send(number, method, {**fields, "exchange": message.exchange, "routing_key": message.routing_key})
        self._waiting.append(content(number, properties, reply.body, self.frame_max))

    def _got(self, channel: ChannelOutput, reply: Got) -> None:
        fields = {"delivery_tag": reply.delivery_tag, "redelivered": reply.redelivered, "message_count": reply.messages}
        self._content(channel.number, "basic.get-ok", fields, reply)

    def _return(self, channel: ChannelOutput, reply: Returned) -> None:
        self._content(channel.number, "basic.return", {"reply_code": reply.code, "reply_text": reply.text}, reply)

    def _cancel(self, channel: ChannelOutput, reply: replies.ConsumerCancelled) -> None:
        if self.told_of_cancels:
            self.send(channel.number, "basic.cancel", {"consumer_tag": reply.consumer_tag, "nowait": True})

    def _answer(self, channel: ChannelOutput, reply: Reply) -> None:
        if channel.muted:  # nowait: the client asked for no answer
            channel.muted = False
        else:
            self.send(channel.number, *_ANSWERS[type(reply)](reply))


_Answer = tuple[str, dict[str, Any]]
_ANSWERS: dict[type[Reply], Callable[[Any], _Answer]] = {
    replies.Done: lambda reply: (reply.method, {"active": True} if reply.method == "channel.flow-ok" else {}),
    replies.QueueDeclared: lambda reply: (
        "queue.declare-ok",
        {"queue": reply.queue, "message_count": reply.messages, "consumer_count": reply.consumers},
    ),
    replies.QueuePurged: lambda reply: ("queue.purge-ok", {"message_count": reply.messages}),
    replies.QueueDeleted: lambda reply: ("queue.delete-ok", {"message_count": reply.messages}),
    replies.Consuming: lambda reply: ("basic.consume-ok", {"consumer_tag": reply.consumer_tag}),
    replies.Cancelled: lambda reply: ("basic.cancel-ok", {"consumer_tag": reply.consumer_tag}),
    replies.GotNothing: lambda reply: ("basic.get-empty", {}),
}
_WRITERS: dict[type[Reply], Callable[[Outbox, ChannelOutput, Any], None]] = {
    **dict.fromkeys(_ANSWERS, Outbox._answer),
    replies.ConsumerCancelled: Outbox._cancel,
    Confirmed: Outbox._confirm,
    Refused: Outbox._refuse,
    Got: Outbox._got,
    Returned: Outbox._return,
}

# Publisher confirms of one channel: several acknowledgements that wait to be sent become one.


class Confirms:
    """Gathers ``basic.ack`` to a publisher until they are sent.

    ``multiple`` covers every number below, so it is used only up to where all have
    been answered. Refusals are not gathered: they are sent at once, before the
    acknowledgements that may cover their number.
    """

    __slots__ = ("_answered", "_early", "_first", "_last")

    def __init__(self) -> None:
        self._answered = 0
        self._early: set[int] = set()
        self._first = 0
        self._last = 0

    def confirm(self, number: int) -> bool:
        """Take an acknowledgement and return whether it can wait; otherwise it must be sent by itself."""
        if number != self._answered + 1:
            self._early.add(number)
            return False
        self._advance()
        self._first = self._first or number
        self._last = number
        return True

    def refuse(self, number: int) -> None:
        """Note that a number was refused."""
        if number == self._answered + 1:
            self._advance()
        else:
            self._early.add(number)

    def answered_up_to(self, number: int) -> None:
        """Note that all numbers up to this one have been answered in another way."""
        self._answered = max(self._answered, number)
        self._early = {early for early in self._early if early > self._answered}

    def take(self) -> tuple[int, bool] | None:
        """Return the number to acknowledge now and whether it covers several; ``None`` if no number waits."""
        if not self._last:
            return None
        found = self._last, self._last > self._first
        self._first = self._last = 0
        return found

    def _advance(self) -> None:
        self._answered += 1
        while self._early and self._answered + 1 in self._early:
            self._answered += 1
            self._early.remove(self._answered)
