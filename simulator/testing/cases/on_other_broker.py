"""Runs cases on brokers that are not RabbitMQ, to see how far they behave like a release of it.

Where a management API answers, each case has a virtual host of its own, as on RabbitMQ. Where
none does, the virtual host of the AMQP URL is used, one case after another: it has to be empty
of what the cases declare, and cases with policies are not run.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote, urlsplit

import pika

from simulator.capture.access import AccessError, complete, hidden
from simulator.capture.connected import amqp_parameters
from simulator.definitions import DefinitionsError
from simulator.scenario import steps
from simulator.testing.brokers.broker_under_test import BrokerUnavailableError
from simulator.testing.brokers.servers import ManagementError, NoSuchServerError, ask
from simulator.testing.cases.given_case import GivenCase
from simulator.testing.cases.on_server import LONGEST_MS, OnServer, ServerStage, need_faults
from simulator.testing.cases.running import CaseResult, Target, run_case

_NO_API = "it has policies, which need a management API; none answers"


def other_broker(urls: str, release: str) -> Target:
    """Return the broker at ``AMQP_URL`` or ``AMQP_URL|MANAGEMENT_URL``, to be held to a release of RabbitMQ.

    Raises ``BrokerUnavailableError`` if no broker answers, or no management API at a URL that was given for one.
    """
    amqp_url, _, management_url = urls.partition("|")
    try:
        amqp_url = complete(amqp_url)
    except AccessError as error:
        raise BrokerUnavailableError(f"{hidden(amqp_url)}: {error}") from error
    name = _name(amqp_url)
    try:
        return OnServer(ask(urls, release), name)
    except NoSuchServerError as error:
        if management_url:
            raise BrokerUnavailableError(str(error)) from error
        return OverAmqpAlone(amqp_url, name, release)


def run_on_other(case: GivenCase, target: Target) -> CaseResult:
    """Run one case; one in which the broker drops the connection, or fails in another way, does not hold."""
    try:
        return run_case(case, target)
    except (BrokerUnavailableError, ManagementError, pika.exceptions.AMQPError, OSError) as error:
        failure = f"it could not be played to its end: {str(error) or type(error).__name__}"
        return CaseResult(
            name=case.name, source=case.source, line=case.line, target=target.name, status="failed",
            failed_line=case.line, failures=[failure],
        )  # fmt: skip


def _name(amqp_url: str) -> str:
    """Return what a broker calls itself when a client connects."""
    try:
        with contextlib.closing(pika.BlockingConnection(amqp_parameters(amqp_url))) as connection:
            said = connection._impl.server_properties or {}
    except (pika.exceptions.AMQPError, OSError) as error:
        why = str(error) or type(error).__name__
        raise BrokerUnavailableError(f"no broker answers at {hidden(amqp_url)}: {why}") from error
    words = [said.get(key, b"") for key in ("product", "version")]
    return " ".join(word.decode(errors="replace") if isinstance(word, bytes) else str(word) for word in words).strip()


class _AmqpAlone:
    """A virtual host that nothing is known of but its URL."""

    def __init__(self, amqp_url: str) -> None:
        self.amqp_url = amqp_url
        self.vhost = unquote(urlsplit(amqp_url).path[1:]) or "/"

    def api(self, method: str, path: str, body: object = None) -> Any:
        """Refuse: there is no management API."""
        raise ManagementError(f"{method} {path}", 404, "there is no management API")


class OverAmqpAlone:
    """Runs cases in one virtual host.

    Attributes:
        release: the release to which the broker is held.
        name: what it is called in answers.
        longest_ms: how much time may pass in a case.
        at_a_time: how many cases may run at once.
    """

    longest_ms: int | None = LONGEST_MS
    at_a_time = 1

    def __init__(self, amqp_url: str, name: str, release: str) -> None:
        self.release = release
        self.name = f"{name} (AMQP alone)"
        self._url = amqp_url

    def why_not(self, case: GivenCase) -> str:
        """Return why a case cannot be run here; empty if it can."""
        if case.faults:
            return need_faults(case.faults)
        topology = case.topology
        sets = any(isinstance(step, (steps.SetPolicy, steps.ClearPolicy)) for step in case.steps)
        return _NO_API if sets or topology.policies or topology.operator_policies else ""

    @contextlib.contextmanager
    def stage(self, case: GivenCase) -> Iterator[ServerStage]:
        """Yield the virtual host with the definitions of the case, which are deleted afterwards.

        Raises ``DefinitionsError`` if they are refused, and ``BrokerUnavailableError`` where one of its names is taken.
        """
        with (
            contextlib.closing(pika.BlockingConnection(amqp_parameters(self._url))) as connection,
            _declared(connection, case, self._url),
            contextlib.closing(self._stage(case)) as stage,
        ):
            yield stage

    def _stage(self, case: GivenCase) -> ServerStage:
        return ServerStage(_AmqpAlone(self._url), list(case.topology.queues), over_amqp10=case.modified_queues)


@contextlib.contextmanager
def _declared(connection: Any, case: GivenCase, url: str) -> Iterator[None]:
    topology = case.topology
    exchanges = [each for each in topology.exchanges.values() if each.name and not each.name.startswith("amq.")]
    for kind, names in (("queue", list(topology.queues)), ("exchange", [each.name for each in exchanges])):
        for name in names:
            if _is_there(connection, kind, name):
                raise BrokerUnavailableError(f"{hidden(url)} has a {kind} {name!r} already; give an empty virtual host")
    try:
        try:
            _declare(connection.channel(), case, exchanges)
        except pika.exceptions.ChannelClosedByBroker as error:
            raise DefinitionsError(case.source, "", f"the broker refuses it: {error.reply_text}") from error
        yield
    finally:
        for name in topology.queues:
            _delete(connection, "queue", name)
        for each in exchanges:
            _delete(connection, "exchange", each.name)


def _declare(channel: Any, case: GivenCase, exchanges: list[Any]) -> None:
    for each in exchanges:
        channel.exchange_declare(
            each.name, each.type, durable=each.durable, auto_delete=each.auto_delete,
            internal=each.internal, arguments=dict(each.arguments),
        )  # fmt: skip
    for queue in case.topology.queues.values():
        channel.queue_declare(
            queue.name, durable=queue.durable, auto_delete=queue.auto_delete, arguments=dict(queue.arguments)
        )
    for binding in (each for bound in case.topology.bindings.values() for each in bound):
        bind = channel.queue_bind if binding.destination_type == "queue" else channel.exchange_bind
        bind(binding.destination, binding.source, binding.routing_key, dict(binding.arguments))


def _is_there(connection: Any, kind: str, name: str) -> bool:
    channel = connection.channel()
    try:
        getattr(channel, f"{kind}_declare")(name, passive=True)
    except pika.exceptions.ChannelClosedByBroker as error:
        return bool(error.reply_code != 404)
    channel.close()
    return True


def _delete(connection: Any, kind: str, name: str) -> None:
    """Delete a queue or an exchange that may be gone, or was never there."""
    with contextlib.suppress(pika.exceptions.AMQPError):
        channel = connection.channel()
        getattr(channel, f"{kind}_delete")(name)
        channel.close()
