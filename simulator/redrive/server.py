"""A running RabbitMQ as an operator reaches it: AMQP for messages, the management API for what is configured."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import msgspec
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker
from pika.spec import BasicProperties

from dlx.message_flow import MessageFlow
from dlx.nearest_names import suggestion
from dlx.policies import choose_policy
from dlx.releases import Release, release_and_remark
from dlx.server_plugins import CONSISTENT_HASH
from dlx.settings import Settings
from dlx.topology import STOCK_EXCHANGES
from simulator.analysis.shovels import given_shovels
from simulator.analysis.snapshot import Snapshot
from simulator.capture import CaptureUnavailable
from simulator.capture.access import TLS, Access, complete, usual_api, with_user_of
from simulator.capture.connected import connected
from simulator.capture.management_api import ManagementError, describe_refusal, fetched, is_refusal, server_of
from simulator.capture.server_definitions import definitions_on, path_of_definitions
from simulator.definitions import Definitions, DefinitionsError, parse_definitions
from simulator.json_reading import read_json
from simulator.redrive.prediction import Held

_AMQP_PORT = {"amqp": 5672, "amqps": 5671}
_ACCESS_REFUSED = 403
_NO_NUMBER = "none"
_CLOSE_S = 0.2  # how long a broker that takes no publishes may take to close a connection


class NoSuchQueueError(Exception):
    """The server does not have the queue or the virtual host; the text names the nearest."""


class ServerAddress(msgspec.Struct, frozen=True):
    """Where a server is. The URLs hold passwords and are not for printing.

    Attributes:
        amqp_url: ``None`` where only the management API is known.
        management_url: the management API.
        vhost: the virtual host that is looked at.
    """

    amqp_url: str | None
    management_url: str
    vhost: str

    def __str__(self) -> str:
        return server_of(self.management_url)


class QueueOnServer(msgspec.Struct, frozen=True):
    """A queue of a running server, and what the server's definitions say of it.

    Attributes:
        snapshot: the server's definitions under its release.
        flow: what can become of messages in its virtual host.
        settings: its effective settings.
        consumers: how many it has.
        remarks: what the answer rests on, in sentences.
        unseen: what the user may not see of the definitions, in sentences.
    """

    snapshot: Snapshot
    flow: MessageFlow
    settings: Settings
    consumers: int
    remarks: tuple[str, ...]
    unseen: tuple[str, ...] = ()

    @property
    def policy(self) -> str | None:
        """The name of the policy that applies to the queue."""
        topology = self.flow.topology
        chosen = choose_policy(self.settings.queue, topology.policies, self.release).policy
        return None if chosen is None else chosen.name

    @property
    def of_plugins(self) -> frozenset[str]:
        """The exchanges of its virtual host of which only a plugin knows how they route, or the server in which order
        queues were bound to them."""
        by_order = {each.name for each in self.flow.topology.exchanges.values() if each.type == CONSISTENT_HASH}
        unknown = {at.name for at in self.snapshot.of_plugins if self.snapshot.flows[at.vhost] is self.flow}
        return frozenset(by_order | unknown)

    @property
    def shovels(self) -> tuple[str, ...]:
        """What is not foreseen of shovels that take messages out of queues of its virtual host."""
        here = [
            (name, shovel.queue)
            for name, shovel in given_shovels(self.snapshot)
            if self.snapshot.flows.get(shovel.source.vhost) is self.flow and shovel.queue in self.flow.topology.queues
        ]
        return tuple(f"what the shovel '{name}' takes out of '{queue}'" for name, queue in here)

    @property
    def release(self) -> Release:
        """The release whose rules apply."""
        return self.settings.release


def server_at(
    url: str,
    management_url: str | None = None,
    vhost: str | None = None,
    *,
    tls: TLS = TLS(),  # noqa: B008  immutable
) -> ServerAddress:
    """Return the server at an AMQP URL or a management URL.

    Args:
        url: amqp, amqps, http or https.
        management_url: by default the usual port of the same host; without a user it gets the one of ``url``.
        vhost: by default the one in an AMQP URL, or ``/``.
        tls: certificates.

    Raises:
        ValueError: the URL is of another kind, or of a port of its own without a management URL, or it leaves out what
            ``simulator.capture.access`` does not find.
    """
    parts = urlsplit(url)
    url = complete(url, Access(tls=tls))
    if management_url is not None:
        management_url = complete(with_user_of(management_url, url), Access(tls=tls))
    if parts.scheme in ("http", "https"):
        return ServerAddress(None, management_url or url, "/" if vhost is None else vhost)
    if parts.scheme not in _AMQP_PORT:
        raise ValueError("expected amqp://USER@HOST/VHOST, or a management URL: http://USER@HOST:15672")
    if management_url is None and parts.port not in (None, _AMQP_PORT[parts.scheme]):
        raise ValueError(f"cannot guess the management API of port {parts.port}; pass --management-url")
    inside = unquote(parts.path[1:]) or "/"
    return ServerAddress(url, management_url or complete(usual_api(url)), inside if vhost is None else vhost)


def queue_on(server: ServerAddress, name: str) -> QueueOnServer:
    """Return the queue of that name.

    Raises:
        CaptureUnavailable: the management API does not answer, or refuses.
        DefinitionsError: what it answers cannot be used.
        NoSuchQueueError: there is no such queue.
    """
    version = shown_by_api(server, "overview")["rabbitmq_version"]
    release, remark = release_and_remark(version)
    vhost = quote(server.vhost, safe="")
    _check_vhost(server)
    definitions = _definitions(server)
    snapshot = Snapshot(_completed(server, definitions), release)
    flow = snapshot.flows.get(server.vhost) or snapshot.flows["/"]  # before 4.0 the export does not name it
    if name not in flow.topology.queues:
        problem = f"no queue {name!r} in the virtual host {server.vhost!r}; {suggestion(name, flow.topology.queues)}"
        raise NoSuchQueueError(f"{server}: {problem}")
    asked = shown_by_api(server, f"queues/{vhost}/{quote(name, safe='')}")
    remarks = (f"the server is RabbitMQ {version}; the rules are those of {release.name}", *filter(None, [remark]))
    consumers = asked.get("consumers", 0)
    return QueueOnServer(snapshot, flow, flow.settings(name), consumers, remarks, definitions.remarks)


def held_by_queue(server: ServerAddress) -> dict[str, Held]:
    """Return what is ready in each queue of the virtual host, as the server knew some seconds ago.

    Raises:
        CaptureUnavailable: the management API does not answer, or refuses.
    """
    listed = queues_shown(server)
    return {each["name"]: Held(each.get("messages_ready", 0), each.get("message_bytes_ready", 0)) for each in listed}


def held_now(server: ServerAddress, on_server: QueueOnServer) -> dict[str, Held]:
    """Return what the queues hold: now for those that can be full, some seconds ago for the others.

    Raises:
        CaptureUnavailable: the server does not answer, or refuses.
    """
    held = held_by_queue(server)
    flow = on_server.flow
    limited = [name for name in flow.topology.queues if flow.settings(name).has_length_limit]
    for name in limited:
        if not flow.topology.queues[name].exclusive:
            held.setdefault(name, Held()).messages = ready_in(server, name)
    return held


def ready_in(server: ServerAddress, queue: str) -> int:
    """Return how many messages are ready in a queue just now. Raises ``CaptureUnavailable``."""
    assert server.amqp_url is not None
    with connected(server.amqp_url, server.vhost) as (connection, _):
        ready: int = connection.channel().queue_declare(queue, passive=True).method.message_count
        return ready


def why_no_publish(server: ServerAddress, exchange: str) -> str:
    """Return why the user may not publish to an exchange; empty if the user may.

    It asks by a message that no server takes, since its expiration is no number: the server looks at rights before
    that (live, 3.8.9 to 4.3.6). Rights by routing keys, which a topic exchange may have, are not asked for.

    Raises:
        CaptureUnavailable: the server does not answer.
    """
    assert server.amqp_url is not None
    refusal: str | None = None
    try:
        with connected(server.amqp_url, server.vhost, blocked_s=_CLOSE_S) as (connection, _):
            refusal = _refusal(connection.channel(), exchange)
    except CaptureUnavailable:
        if refusal is None:
            raise  # if it has answered, a broker that is short of memory only does not let go
    return refusal


def _refusal(channel: BlockingChannel, exchange: str) -> str:
    try:
        channel.basic_publish(exchange, "", b"", BasicProperties(expiration=_NO_NUMBER))
        channel.basic_qos()  # which the server answers after it has looked at the message
    except ChannelClosedByBroker as error:
        return str(error.reply_text) if error.reply_code == _ACCESS_REFUSED else ""
    return ""


def held_on_the_way(server: ServerAddress, on_server: QueueOnServer) -> Iterator[str]:
    """Yield, in sentences, how many dead messages a queue holds that come to this one, as known some seconds ago.

    At-least-once dead-lettering holds a message in the queue it died in until a queue has its dead letter.

    Raises:
        CaptureUnavailable: the management API does not answer, or refuses.
    """
    for each in queues_shown(server):
        held, name = each.get("messages_dlx") or 0, each["name"]
        if held and on_server.settings.queue.name in (name, *on_server.flow.possible_targets(name)):
            yield f"{held:,} that died in '{name}' and are held there until a queue takes their dead letters"


def queues_shown(server: ServerAddress) -> list[dict[str, Any]]:
    """Return what the management API shows of the queues of the virtual host. Raises ``CaptureUnavailable``."""
    found: list[dict[str, Any]] = shown_by_api(server, f"queues/{quote(server.vhost, safe='')}")
    return found


def _completed(server: ServerAddress, definitions: Definitions) -> Definitions:
    """Return definitions with what exports leave out: internal exchanges and exclusive queues."""
    document = dict(definitions.document)
    for section, fields in _LISTED.items():
        known = {each["name"] for each in document.get(section, ())}
        there = shown_by_api(server, f"{section}/{quote(server.vhost, safe='')}")
        missing = [each for each in there if each["name"] not in known | _STOCK]
        added = [{name: each[name] for name in fields if name in each} for each in missing]
        of_vhost = {} if definitions.single_vhost else {"vhost": server.vhost}
        document[section] = [*document.get(section, ()), *({**each, **of_vhost} for each in added)]
    return Definitions(document, definitions.source, server.vhost)


_STOCK = {exchange.name for exchange in STOCK_EXCHANGES}
_LISTED = {
    "exchanges": ("name", "type", "durable", "auto_delete", "internal", "arguments"),
    "queues": ("name", "durable", "auto_delete", "exclusive", "arguments"),
}


def _definitions(server: ServerAddress) -> Definitions:
    """Return those of the virtual host. 4.3 cuts its export off where its name is not ASCII, but not the whole one."""
    try:
        return _exported(server, server.vhost)
    except DefinitionsError:
        whole = _exported(server, None)
        one = parse_definitions(whole.to_json(server.vhost), whole.source, server.vhost)
        one.remarks = whole.remarks
        return one


def _check_vhost(server: ServerAddress) -> None:
    known = [each["name"] for each in shown_by_api(server, "vhosts")]
    if server.vhost not in known:
        problem = f"no virtual host {server.vhost!r} that this user may see; {suggestion(server.vhost, known)}"
        raise NoSuchQueueError(f"{server}: {problem}")


def _exported(server: ServerAddress, vhost: str | None) -> Definitions:
    with _answers(server):
        found = definitions_on(server.management_url, vhost)
    definitions = parse_definitions(found.data, f"{server}/api/{path_of_definitions(vhost)}", vhost)
    definitions.remarks += found.remarks(server.management_url)
    return definitions


def shown_by_api(server: ServerAddress, path: str) -> Any:
    """Return what the management API shows at a path below ``/api/``. Raises ``CaptureUnavailable``."""
    with _answers(server):
        data = fetched(server.management_url, path)
    return read_json(data)


@contextmanager
def _answers(server: ServerAddress) -> Iterator[None]:
    """Turn what the management API refuses, or does not answer, into ``CaptureUnavailable``."""
    try:
        yield
    except ManagementError as error:
        problem = describe_refusal(error, server.management_url) if is_refusal(error) else str(error)
        raise CaptureUnavailable(str(server), problem) from error
    except OSError as error:
        raise CaptureUnavailable(str(server), f"no answer: {getattr(error, 'reason', error)}") from error
