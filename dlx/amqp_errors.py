"""RabbitMQ's refusals: a reply code, a text, and whether the channel or the connection ends with it.

The functions here build the refusals that end a channel or a connection. Declarations,
bindings, permissions and policies have files of their own.

Source: rabbit_channel.erl, rabbit_amqqueue.erl, rabbit_quorum_queue.erl, rabbit_stream_queue.erl;
rabbit_binary_generator.erl map_exception; live servers.
"""

from __future__ import annotations

import re
from typing import Any

from dlx.erlang_printing import LINE, Atom, as_octets, field_term, in_plain_text, printed
from dlx.releases import Release

NAMES = {
    311: "CONTENT_TOO_LARGE",
    312: "NO_ROUTE",
    313: "NO_CONSUMERS",
    320: "CONNECTION_FORCED",
    402: "INVALID_PATH",
    403: "ACCESS_REFUSED",
    404: "NOT_FOUND",
    405: "RESOURCE_LOCKED",
    406: "PRECONDITION_FAILED",
    501: "FRAME_ERROR",
    502: "SYNTAX_ERROR",
    503: "COMMAND_INVALID",
    504: "CHANNEL_ERROR",
    505: "UNEXPECTED_FRAME",
    506: "RESOURCE_ERROR",
    530: "NOT_ALLOWED",
    540: "NOT_IMPLEMENTED",
    541: "INTERNAL_ERROR",
}
# Codes that end the channel only; every other ends the connection (rabbit_framing_amqp_0_9_1.erl lookup).
SOFT = frozenset({311, 312, 313, 403, 404, 405, 406})
_LONGEST = 255
_NOT_UTF_8 = re.compile("[\udc80-\udcff]")  # bytes that came as no character, each as Python escapes it
MAX_MESSAGE_SIZE = 512 * 1024 * 1024  # no configuration can exceed it; rabbit.hrl MAX_MSG_SIZE


class Refusal(Exception):
    """A command that RabbitMQ refuses.

    ``code`` is the AMQP reply code, ``explanation`` the text without its prefix;
    ``text`` is what a client sees, unless ``silent``, such as ``NOT_FOUND - no queue 'q' in vhost '/'``.
    ``plain`` says to a person what the explanation says, which may hold Erlang terms.
    """

    encoding = "utf-8"
    silent = False  # whether the connection ends without a word
    reason: Any = None  # the term that says why a server crashed, for imports, which show it

    def __init__(self, code: int, explanation: str = "", plain: str = "") -> None:
        super().__init__(explanation)
        self.code = code
        self.explanation = explanation
        self.plain = plain or in_plain_text(explanation)

    @property
    def text(self) -> str:
        """The reply text: the code's name, a dash and the explanation, cut to the 255 bytes of a short string."""
        data = self._whole.encode(self.encoding, errors="surrogateescape")
        if len(data) <= _LONGEST:
            return self._whole
        return data[: _LONGEST - 3].decode(self.encoding, "surrogateescape") + "..."

    @property
    def uncut(self) -> str:
        """The whole of a ``text`` that had to be cut, which the HTTP API shows in full; empty for any other."""
        return "" if self.text == self._whole else self._whole

    @property
    def _whole(self) -> str:
        return f"{NAMES[self.code]} - {self.explanation}" if self.explanation else NAMES[self.code]

    @property
    def is_crash(self) -> bool:
        """Whether the server ran into something that it did not foresee (``internal_error``)."""
        return self.code == 541 and not self.explanation

    @property
    def ends_connection(self) -> bool:
        """Whether the whole connection ends with it, not the channel alone."""
        return self.code not in SOFT


def as_told(refusal: Refusal, release: Release) -> Refusal:
    """Return the refusal in the characters that the release's error texts have."""
    encoding = release.error_text_encoding
    if encoding == "bytes" or refusal.explanation.isascii():
        return refusal
    text = _NOT_UTF_8.sub(lambda found: chr(ord(found[0]) - 0xDC00), refusal.explanation)
    told = Refusal(refusal.code, text)
    if encoding == "Latin-1":
        told.encoding = "latin-1"
        return internal_error() if max(text) > "\xff" else told
    whole = f"{NAMES[refusal.code]} - {text}"  # cut by characters, in vain where the bytes are too many
    held = whole if len(whole) <= _LONGEST else whole[: _LONGEST - 3] + "..."
    if len(held.encode()) <= _LONGEST:
        return told
    failure = internal_error()
    failure.silent = refusal.ends_connection  # what fails at the text is what would send it
    return failure


def explained(before: str, term: Any, release: Release, line: int = LINE) -> str:
    """Return the text ``before`` followed by a term that may hold what a client sent, as ``~p`` prints it there."""
    shown = printed(as_octets(term), len(before), line)
    if release.error_text_encoding == "bytes":
        shown = shown.encode("latin-1").decode(errors="surrogateescape")
    return before + shown


def client_characters(sent: str | bytes, release: Release) -> str:
    """Return a client's text as the characters that RabbitMQ takes it for; ``bytes`` are not UTF-8."""
    if isinstance(sent, str) and release.error_text_encoding != "bytes":
        return sent
    data = sent if isinstance(sent, bytes) else sent.encode()
    return data.decode("latin-1")


def internal_error(reason: Any = None) -> Refusal:
    """Report that the server ran into something it did not foresee; its reply says no more."""
    refusal = Refusal(541)
    refusal.reason = reason
    return refusal


def lost_replay() -> Refusal:
    """Refuse to bind an exchange that routes a kept message to no queue."""
    return Refusal(541, "could not find queue/exchange ''")


def resource(kind: str, name: str, vhost: str) -> str:
    """Return the words that RabbitMQ uses for a queue or exchange: ``queue 'q' in vhost '/'``."""
    return f"{kind} '{name}' in vhost '{vhost}'"


# Names


def no_queue(name: str, vhost: str) -> Refusal:
    return Refusal(404, f"no {resource('queue', name, vhost)}")


def no_exchange(name: str, vhost: str) -> Refusal:
    return Refusal(404, f"no {resource('exchange', name, vhost)}")


def no_previous_queue() -> Refusal:
    """Refuse an empty queue name on a channel that has declared no queue yet."""
    return Refusal(404, "no previously declared queue")


def reserved_name(kind: str, name: str) -> Refusal:
    """Refuse a new queue or exchange (``kind``) whose name begins with ``amq.``."""
    return Refusal(403, f"{kind} name '{name}' contains reserved prefix 'amq.*'")


def default_exchange() -> Refusal:
    """Refuse to declare, delete or bind the default exchange."""
    return Refusal(403, "operation not permitted on the default exchange")


def queue_limit(name: str, vhost: str, limit: int) -> Refusal:
    """Refuse a new queue in a virtual host that has as many as it may."""
    return Refusal(406, f"cannot declare queue '{name}': queue limit in vhost '{vhost}' ({limit}) is reached")


# Queues and exchanges in use


def locked_queue(name: str, vhost: str) -> Refusal:
    """Refuse an exclusive queue of another connection, and a redeclaration that differs in ``exclusive``."""
    return Refusal(
        405,
        f"cannot obtain exclusive access to locked {resource('queue', name, vhost)}. It could be originally declared"
        " on another connection or the exclusive property value does not match that of the original declaration.",
    )


def exclusive_consumer(name: str, vhost: str) -> Refusal:
    """Refuse a consumer beside an exclusive one, or an exclusive one beside others or with a single active consumer."""
    return Refusal(403, f"{resource('queue', name, vhost)} in exclusive use")


def queue_in_use(name: str, vhost: str) -> Refusal:
    """Refuse queue.delete with if-unused, since the queue is in use."""
    return Refusal(406, f"{resource('queue', name, vhost)} in use")


def queue_not_empty(name: str, vhost: str) -> Refusal:
    """Refuse queue.delete with if-empty, since the queue holds messages."""
    return Refusal(406, f"{resource('queue', name, vhost)} not empty")


def conditional_delete(option: str, name: str, vhost: str) -> Refusal:
    """Refuse queue.delete of a quorum queue with ``if-unused`` or ``if-empty``; streams ignore both flags."""
    return Refusal(
        540,
        f"cannot delete {resource('queue', name, vhost)}. queue.delete operations with {option} flag set are not"
        " supported by quorum queues",
    )


def exchange_in_use(name: str, vhost: str) -> Refusal:
    """Refuse exchange.delete with if-unused, since the exchange is in use."""
    return Refusal(406, f"{resource('exchange', name, vhost)} in use")


def system_exchange(name: str, vhost: str) -> Refusal:
    """Refuse exchange.delete of an exchange whose name begins with ``amq.``."""
    return Refusal(403, f"deletion of system {resource('exchange', name, vhost)} not allowed")


def purge_of_stream(name: str, vhost: str) -> Refusal:
    return Refusal(540, f"queue.purge not supported by stream queues {resource('queue', name, vhost)}")


# Consuming


def consumer_tag_in_use(tag: str) -> Refusal:
    return Refusal(530, f"attempt to reuse consumer tag '{tag}'")


def global_qos(name: str, vhost: str) -> Refusal:
    """Refuse a consumer of a quorum queue or stream on a channel with a global prefetch."""
    return Refusal(540, f"{resource('queue', name, vhost)} does not support global qos")


def stream_without_acknowledgements(name: str, vhost: str, release: Release) -> Refusal:
    """Refuse a stream's consumer with no-ack."""
    kind = "stream" if release.stream_refusals == "stream queue" else "stream queues"
    return Refusal(540, f"automatic acknowledgement not supported by {kind} {resource('queue', name, vhost)}")


def stream_without_prefetch(name: str, vhost: str, release: Release) -> Refusal:
    """Refuse a stream's consumer on a channel without a prefetch; RabbitMQ checks this before no-ack."""
    named = resource("queue", name, vhost)
    which = f"stream {named}" if release.stream_refusals == "stream queue" else f"'{named}'"
    return Refusal(406, f"consumer prefetch count is not set for {which}")


def rejection_of_stream(name: str, vhost: str) -> Refusal:
    """Refuse basic.nack and basic.reject, where a stream does not take them as acknowledgements."""
    return Refusal(540, f"basic.nack and basic.reject not supported by stream queues {resource('queue', name, vhost)}")


def get_from_stream(name: str, vhost: str) -> Refusal:
    return Refusal(540, f"basic.get not supported by stream queues {resource('queue', name, vhost)}")


def get_from_single_active(name: str, vhost: str, release: Release) -> Refusal:
    """Refuse basic.get from a quorum queue with a single active consumer."""
    return Refusal(
        405,
        f"cannot obtain access to locked {resource('queue', name, vhost)}. basic.get operations are not supported by"
        f" {release.single_active_get_refusal} queues with single active consumer",
    )


def prefetch_size(size: int) -> Refusal:
    return Refusal(540, f"prefetch_size!=0 ({size})")


# Acknowledging


def unknown_delivery_tag(tag: int) -> Refusal:
    return Refusal(406, f"unknown delivery tag {tag}")


def acknowledgement_timeout(channel: int, timeout_ms: int) -> Refusal:
    """Close a channel on which a delivery stayed unacknowledged for ``timeout_ms``."""
    return Refusal(
        406,
        f"delivery acknowledgement on channel {channel} timed out. Timeout value used: {timeout_ms} ms."
        " This timeout value can be configured, see consumers doc guide to learn more",
    )


def recover_without_requeue() -> Refusal:
    return Refusal(540, "requeue=false")


# Publishing


def immediate() -> Refusal:
    return Refusal(540, "immediate=true")


def message_too_large(size: int, limit: int) -> Refusal:
    """Refuse a message body of more bytes than the server takes."""
    configured = "" if limit == MAX_MESSAGE_SIZE else "configured "
    return Refusal(406, f"message size {size} is larger than {configured}max size {limit}")


def internal_exchange(name: str, vhost: str) -> Refusal:
    return Refusal(403, f"cannot publish to internal {resource('exchange', name, vhost)}")


def type_not_enabled(name: str, vhost: str, type: str) -> Refusal:
    """Refuse a message that comes to an exchange whose type's plugin is no longer enabled."""
    where = resource("exchange", name, vhost)
    return Refusal(406, f"Cannot route message through {where}: exchange type {type} not found")


def wrong_user_id(claimed: str, user: str) -> Refusal:
    return Refusal(406, f"user_id property set to '{claimed}' but authenticated user was '{user}'")


def wrong_sender_selected_type(header: str, type_name: str) -> Refusal:
    """Refuse a ``CC`` or ``BCC`` header that is not an array."""
    term = (Atom("unacceptable_type_in_header"), list(header.encode()), Atom(type_name))
    return Refusal(406, f"invalid message: {printed(term, len('invalid message: '))}")


def unknown_delivery_mode(mode: object) -> Refusal:
    """Refuse a publish whose ``delivery_mode`` is neither 1 nor 2, where the release checks it."""
    return Refusal(406, f"invalid message: {{delivery_mode_unknown,{mode}}}")


def no_reply_consumer() -> Refusal:
    """Refuse a publish that asks for direct replies on a channel that does not consume them."""
    return Refusal(406, "fast reply consumer does not exist")


# Direct replies


def reply_consumer_with_acknowledgements() -> Refusal:
    """Refuse basic.consume of ``amq.rabbitmq.reply-to`` without no-ack."""
    return Refusal(406, "reply consumer cannot acknowledge")


def second_reply_consumer() -> Refusal:
    return Refusal(406, "reply consumer already set")


def binding_of_volatile_queue() -> Refusal:
    return Refusal(403, "cannot bind or unbind to a volatile (direct reply-to) queue")


def get_from_volatile_queue(name: str, vhost: str) -> Refusal:
    return Refusal(540, f"basic.get not supported by volatile {resource('queue', name, vhost)}")


def volatile_queue_of_another_channel(name: str, vhost: str) -> Refusal:
    return Refusal(406, f"only creator channel may consume from {resource('queue', name, vhost)}")


# Transactions and confirms


def partial_commit() -> Refusal:
    """Refuse tx.commit, since a queue refused a publish or is gone."""
    return Refusal(406, "partial tx completion")


def commit_to_deleted_queue(name: str, vhost: str) -> Refusal:
    """Refuse tx.commit of a publish to a queue that is gone, where the release calls that a server error."""
    term = (
        Atom("not_found"),
        (Atom("resource"), vhost.encode(), Atom("queue"), name.encode(errors="surrogatepass")),
    )
    text = "failed to deliver message: "
    return Refusal(506, text + printed(term, len(text)))


def commit_to_deleted_stream(name: str, vhost: str) -> Refusal:
    """Refuse tx.commit of a publish to a stream that is gone."""
    return Refusal(506, f"Stream not found for {resource('queue', name, vhost)}")


def not_transactional() -> Refusal:
    return Refusal(406, "channel is not transactional")


def transactions_after_confirms() -> Refusal:
    return Refusal(406, "cannot switch from confirm to tx mode")


def confirms_after_transactions() -> Refusal:
    return Refusal(406, "cannot switch from tx to confirm mode")


# Connections and channels


def channel_not_open() -> Refusal:
    """Refuse a method on a channel that is not open."""
    return Refusal(504, "expected 'channel.open'")


def channel_open_already() -> Refusal:
    return Refusal(504, "second 'channel.open' seen")


def too_many_channels(opened: int, channel_max: int) -> Refusal:
    return Refusal(530, f"number of channels opened ({opened}) has reached the negotiated channel_max ({channel_max})")


def no_connection() -> Refusal:
    """Refuse channel.open without a connection: only a driver in the process can ask for that."""
    return Refusal(504, "no such connection")


def connection_closed_by_operator(reason: str) -> Refusal:
    return Refusal(320, reason)


def vhost_deleted(vhost: str) -> Refusal:
    """Close a connection whose virtual host an operator deleted."""
    return Refusal(320, f"vhost '{vhost}' is deleted")


def user_deleted(user: str) -> Refusal:
    """Close a connection whose user an operator deleted."""
    return Refusal(320, f"user '{user}' was deleted")


def channel_flow() -> Refusal:
    """Refuse channel.flow with active=false."""
    return Refusal(540, "active=false")


def no_vhost(vhost: str) -> Refusal:
    """Refuse connection.open of a virtual host that does not exist."""
    return Refusal(530, f"vhost {vhost} not found")


def vhost_connection_limit(vhost: str, user: str, limit: int) -> Refusal:
    """Refuse connection.open to a virtual host that has as many connections as it may."""
    return Refusal(530, f"access to vhost '{vhost}' refused for user '{user}': connection limit ({limit}) is reached")


def user_connection_limit(user: str, limit: int) -> Refusal:
    """Refuse connection.open to a user who has as many connections as allowed."""
    return Refusal(530, f"connection refused for user '{user}': user connection limit ({limit}) is reached")


def user_channel_limit(user: str, limit: int, node: str, release: Release) -> Refusal:
    """Refuse channel.open to a user who has as many channels as allowed."""
    named = node if release.channel_limit_refusal == "node" else user
    shown = limit if release.channel_limit_refusal == "bare" else f"({limit})"
    return Refusal(
        530, f"number of channels opened for user '{named}' has reached the maximum allowed user limit of {shown}"
    )


def vhost_refused(vhost: str, user: str) -> Refusal:
    """Refuse connection.open to a user without permissions in the virtual host."""
    return Refusal(530, f"access to vhost '{vhost}' refused for user '{user}'")


def login_refused(mechanism: str) -> Refusal:
    """Refuse connection.start-ok with a wrong user or password; only clients that ask for the reason get this."""
    return Refusal(
        403,
        f"Login was refused using authentication mechanism {mechanism}. For details see the broker logfile.",
    )


def unknown_mechanism(mechanism: str) -> Refusal:
    """Refuse connection.start-ok with a mechanism that the server does not know."""
    return Refusal(503, f"unknown authentication mechanism '{mechanism}'")


def unreadable_response() -> Refusal:
    """Refuse connection.start-ok with a response that is not in the mechanism's form."""
    return Refusal(502, "the response cannot be read")


def not_offered(limit: str) -> Refusal:
    """Refuse connection.tune-ok with a ``channel_max`` or ``frame_max`` that the server did not offer."""
    return Refusal(530, f"{limit} was not offered")


def method_in_wrong_state(state: str) -> Refusal:
    """Refuse a method that the connection does not expect in its state (``running``, ...)."""
    return Refusal(504, f"unexpected method in connection state {state}")


# Frames of methods and contents


def unimplemented_method() -> Refusal:
    return Refusal(503, "unimplemented method")


def malformed_utf_8() -> Refusal:
    """Refuse a method with a short string that is not UTF-8."""
    return Refusal(501, "Malformed UTF-8 in shortstr")


def no_method_frame() -> Refusal:
    return Refusal(505, "expected method frame, got non method frame instead")


def no_content_header(class_id: int) -> Refusal:
    return Refusal(505, f"expected content header for class {class_id}, got non content header frame instead")


def content_header_of_another_class(class_id: int, received: int) -> Refusal:
    return Refusal(505, f"expected content header for class {class_id}, got one for class {received} instead")


def no_content_body() -> Refusal:
    return Refusal(505, "expected content body, got non content body frame instead")


def content_too_large(size: int) -> Refusal:
    """Refuse a content header that announces more bytes than any configuration allows."""
    return Refusal(501, f"content body size {size} exceeds maximum allowed size {MAX_MESSAGE_SIZE}")


def content_longer_than_announced() -> Refusal:
    return Refusal(501, "content body frame exceeds remaining content size")


# Plugins: sharded exchanges, and shovels of a simulated node


def no_shard(exchange: str) -> Refusal:
    return Refusal(406, f"Error finding sharded queue for: {printed(field_term(exchange))}")


def sharded_queue(what: str, exchange: str) -> Refusal:
    return Refusal(406, f"Can't {what} sharded queue: {printed(field_term(exchange))}")


def shovel_of_amqp_1_0() -> Refusal:
    return Refusal(541, "shovels of AMQP 1.0 are not simulated")


def shovel_to_another_server(address: str, peer: str) -> Refusal:
    return Refusal(541, f"{address}: no peer of this simulated node; dlx serve --peer {peer} lets shovels reach it")


def shovel_login_refused(user: str, address: str) -> Refusal:
    return Refusal(403, f"ACCESS_REFUSED: user {user!r} of {address} does not exist, or has another password")


# Returned messages

NO_ROUTE = (312, "NO_ROUTE")
