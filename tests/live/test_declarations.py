"""Random declarations, bindings, consumers and policies: our rules refuse what each server does, in its words.

DLX_DECLARATIONS=600 DLX_DECLARATIONS_SEED=7 make test-live     # more of them, and others
"""

from __future__ import annotations

import html
import os
import re
from collections.abc import Callable
from decimal import Decimal
from random import Random
from typing import Any
from urllib.parse import quote

import pika
import pika.data
import pytest
from pika.exceptions import ChannelClosedByBroker, ConnectionClosedByBroker

from dlx import bindings, declarations
from dlx.amqp_errors import Refusal
from dlx.consumer_arguments import check_consumer_arguments, check_stream_offset
from dlx.field_values import Binary, Long
from dlx.policy_validation import PolicyRefusedError, check_policy
from dlx.releases import release as release_of
from dlx.topology import Binding, Exchange, Queue
from simulator.server.amqp.tables import encode_table
from simulator.testing.brokers.servers import ManagementError
from tests.live import declaration_draws as draws
from tests.live.servers import LiveServer

CASES = int(os.environ.get("DLX_DECLARATIONS", "60"))
SEED = int(os.environ.get("DLX_DECLARATIONS_SEED", "1"))
MADE_UP = re.compile(r"amq\.gen-[\w-]+")
Verdict = tuple[int, str] | None


@pytest.fixture
def every_type(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have pika send the field types of ``dlx.field_values``, of which it knows only some."""

    def encode(pieces: list[bytes], table: dict[str, Any] | None) -> int:
        pieces.append(encode_table(table or {}))
        return len(pieces[-1])

    monkeypatch.setattr(pika.data, "encode_table", encode)


@pytest.mark.usefixtures("every_type")
def test_declarations_are_refused_as_on_the_server(live_server: LiveServer, live_vhost: str) -> None:
    """Codes and texts, one case after another; a failure names the case."""
    asking = Asking(live_server, live_vhost)
    differing = []
    try:
        for number in range(CASES):
            case = asking.case(Random(f"{SEED}/{number}"))
            if case.ours != case.theirs:
                differing.append(case)
    finally:
        asking.close()
    assert differing == []


@pytest.mark.usefixtures("every_type")
def test_bindings_are_two_that_differ_in_the_types_of_their_arguments(live_server: LiveServer, live_vhost: str) -> None:
    values = (1, True, Long(1), 1.0, "1", Binary(b"1"), Decimal(1), [1], [True], {"a": 1, "b": 2}, {"b": 2, "a": 1}, 1)
    ours = {Binding(source="amq.headers", destination="q", arguments={"h": value}) for value in values}
    parameters = pika.URLParameters(live_server.vhost_url(live_vhost))
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        channel.queue_declare("q", durable=True)
        for value in values:
            channel.queue_bind("q", "amq.headers", "", {"h": value})
        path = f"bindings/{quote(live_vhost, safe='')}/e/amq.headers/q/q"
        assert len(live_server.api("GET", path)) == len(ours) == len(values) - 1


class Case:
    """What was asked, and what both sides said."""

    def __init__(self, asked: Any, ours: Verdict, theirs: Verdict) -> None:
        self.asked, self.ours, self.theirs = asked, ours, theirs

    def __repr__(self) -> str:
        return f"\n{self.asked}\n  ours   {self.ours}\n  server {self.theirs}"


class Asking:
    """One server with what was declared on it, and our rules beside it."""

    def __init__(self, server: LiveServer, vhost: str) -> None:
        self._server, self._vhost = server, vhost
        self._release = release_of(server.release)
        self._queues: dict[str, Queue] = {}
        self._exchanges: dict[str, Exchange] = {}
        self._connection: pika.BlockingConnection | None = None
        self._channel: Any = None

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None and self._connection.is_open:
            self._connection.close()

    def case(self, random: Random) -> Case:
        """Draw a case, and ask both sides."""
        kinds: tuple[Callable[[Random], Case], ...]
        kinds = (self._declare_queue, self._redeclare_queue, self._declare_exchange, self._redeclare_exchange)
        kinds = (*kinds, self._bind, self._consume, self._set_policy)
        draw = random.choices(kinds, weights=(30, 15, 6, 6, 10, 8, 30))[0]
        return draw(random)

    # -- the cases --------------------------------------------------------

    def _declare_queue(self, random: Random) -> Case:
        fields = draws.queue(random)
        name = random.choice((*(f"q{random.randrange(10**6)}",) * 12, "", "ä", "amq.mine", "n" * 200))
        asked = self._asked(fields)

        def declare() -> None:
            declared = declarations.declared_queue(name or "amq.gen-made-up", server_named=not name, **asked)
            if declared.name not in self._queues and name:
                self._queues[name] = declared

        if name in self._queues:
            return self._again(self._queues[name], fields)
        ours = _ours(declare)
        theirs = self._theirs(lambda channel: channel.queue_declare(name, **fields))
        return Case(("queue.declare", name, fields), ours, theirs)

    def _redeclare_queue(self, random: Random) -> Case:
        if not self._queues:
            return self._declare_queue(random)
        existing = self._queues[random.choice(sorted(self._queues))]
        return self._again(existing, draws.queue_again(random, existing))

    def _again(self, existing: Queue, fields: dict[str, Any]) -> Case:
        asked = self._asked(fields)
        ours = _ours(lambda: declarations.check_queue_equivalence(existing, **asked))
        theirs = self._theirs(lambda channel: channel.queue_declare(existing.name, **fields))
        return Case(("queue.declare again", existing, fields), ours, theirs)

    def _asked(self, fields: dict[str, Any]) -> dict[str, Any]:
        durable = fields["durable"] and not fields.get("exclusive")
        return dict(fields, durable=durable, vhost=self._vhost, release=self._release)

    def _declare_exchange(self, random: Random) -> Case:
        fields = draws.exchange(random)
        name = random.choice((f"x{random.randrange(10**6)}",) * 8 + ("", "ä", "amq.mine"))
        asked = self._asked(fields)

        def declare() -> None:
            if name in self._exchanges:
                declarations.check_exchange_equivalence(self._exchanges[name], **asked)
            else:
                self._exchanges[name] = declarations.declared_exchange(name, **asked)

        ours = _ours(declare)
        theirs = self._theirs(lambda channel: _declare_exchange(channel, name, fields))
        return Case(("exchange.declare", name, fields), ours, theirs)

    def _redeclare_exchange(self, random: Random) -> Case:
        if not self._exchanges:
            return self._declare_exchange(random)
        existing = self._exchanges[random.choice(sorted(self._exchanges))]
        fields = draws.exchange_again(random, existing)
        asked = self._asked(fields)
        ours = _ours(lambda: declarations.check_exchange_equivalence(existing, **asked))
        theirs = self._theirs(lambda channel: _declare_exchange(channel, existing.name, fields))
        return Case(("exchange.declare again", existing, fields), ours, theirs)

    def _bind(self, random: Random) -> Case:
        stock = (Exchange(name="amq.headers", type="headers"), Exchange(name="amq.topic", type="topic"))
        exchange = random.choice((*stock, *stock, *self._exchanges.values()))
        targets = [queue for queue in self._queues.values() if not queue.exclusive and not queue.auto_delete]
        if not targets:
            return self._declare_queue(random)
        queue, fields = random.choice(targets), draws.binding(random)
        ours = _ours(lambda: bindings.check_binding(exchange, destination=queue, release=self._release, **fields))
        theirs = self._theirs(lambda channel: channel.queue_bind(queue.name, exchange.name, **fields))
        return Case(("queue.bind", exchange, queue, fields), ours, theirs)

    def _consume(self, random: Random) -> Case:
        targets = [queue for queue in self._queues.values() if not queue.exclusive and not queue.auto_delete]
        if not targets:
            return self._declare_queue(random)
        queue, arguments = random.choice(targets), draws.consumer(random)
        ours = _ours(lambda: self._check_consumer(queue, arguments))
        theirs = self._theirs(lambda channel: _consume(channel, queue.name, arguments))
        return Case(("basic.consume", queue, arguments), ours, theirs)

    def _check_consumer(self, queue: Queue, arguments: dict[str, Any]) -> None:
        check_consumer_arguments(queue, arguments, vhost=self._vhost, release=self._release)
        if queue.type == "stream":
            check_stream_offset(arguments)

    def _set_policy(self, random: Random) -> Case:
        fields, operator = draws.policy(random), random.random() < 0.3
        ours = _our_policy_verdict(fields, operator, self._release)
        kind = "operator-policies" if operator else "policies"
        path = f"{kind}/{quote(self._vhost, safe='')}/p"
        try:
            self._server.api("PUT", path, fields)
        except ManagementError as error:
            return Case((kind, fields), ours, (error.status, _reason(error)))
        self._server.api("DELETE", path)
        return Case((kind, fields), ours, None)

    # -- the server -------------------------------------------------------

    def _theirs(self, ask: Callable[[Any], Any]) -> Verdict:
        if self._connection is None or not self._connection.is_open:
            parameters = pika.URLParameters(self._server.vhost_url(self._vhost))
            parameters.heartbeat = 0
            self._connection, self._channel = pika.BlockingConnection(parameters), None
        if self._channel is None or not self._channel.is_open:
            self._channel = self._connection.channel()
        try:
            ask(self._channel)
        except (ChannelClosedByBroker, ConnectionClosedByBroker) as closed:
            if isinstance(closed, ConnectionClosedByBroker):
                self._forget_exclusive()
            return closed.reply_code, MADE_UP.sub("amq.gen-made-up", closed.reply_text)
        return None

    def _forget_exclusive(self) -> None:
        """They went with the connection that declared them."""
        self._queues = {name: queue for name, queue in self._queues.items() if not queue.exclusive}


def _declare_exchange(channel: Any, name: str, fields: dict[str, Any]) -> None:
    channel.exchange_declare(name, fields["type"], **{k: v for k, v in fields.items() if k != "type"})


def _consume(channel: Any, queue: str, arguments: dict[str, Any]) -> None:
    channel.basic_qos(prefetch_count=1)  # a stream wants one
    channel.basic_cancel(channel.basic_consume(queue, lambda *_: None, arguments=arguments))


def _ours(check: Callable[[], None]) -> Verdict:
    try:
        check()
    except Refusal as refusal:
        return refusal.code, refusal.text
    return None


def _our_policy_verdict(fields: dict[str, Any], operator: bool, release: Any) -> Verdict:
    pattern, definition = fields["pattern"], fields["definition"]
    try:
        check_policy(
            "p", pattern, definition, fields["apply-to"], fields["priority"], operator=operator, release=release
        )
    except PolicyRefusedError as refused:
        return (400, str(refused)) if refused.status == 400 else (refused.status, "")
    return None


def _reason(error: ManagementError) -> str:
    """What stands below ``Validation failed``; of an internal error nothing that could be compared."""
    if error.status != 400:
        return ""
    reason = html.unescape(error.reason)  # escaped until 4.0
    return reason.removeprefix("Validation failed\n\n").removesuffix("\n")
