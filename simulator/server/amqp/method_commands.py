"""Turns the methods that clients send into commands of the broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from simulator.broker import commands
from simulator.broker.commands import ChannelId, Command

_Request = Callable[..., Command]

# Method -> the command, whose fields have the protocol's names unless renamed here.
_COMMANDS: dict[str, _Request] = {
    "channel.flow": commands.SetFlow,
    "exchange.declare": commands.DeclareExchange,
    "exchange.delete": commands.DeleteExchange,
    "exchange.bind": commands.BindExchange,
    "exchange.unbind": commands.UnbindExchange,
    "queue.declare": commands.DeclareQueue,
    "queue.bind": commands.BindQueue,
    "queue.unbind": commands.UnbindQueue,
    "queue.purge": commands.PurgeQueue,
    "queue.delete": commands.DeleteQueue,
    "basic.qos": commands.Qos,
    "basic.consume": commands.Consume,
    "basic.cancel": commands.Cancel,
    "basic.get": commands.Get,
    "basic.ack": commands.Ack,
    "basic.reject": commands.Reject,
    "basic.nack": commands.Nack,
    "basic.recover": commands.Recover,
    "basic.recover-async": commands.Recover,
    "confirm.select": commands.SelectConfirms,
    "tx.select": commands.SelectTransactions,
    "tx.commit": commands.Commit,
    "tx.rollback": commands.Rollback,
}
_NOT_THE_BROKERS = frozenset({"ticket", "nowait"})
_RENAMED = {"global": "global_"}


def command_for(method: str, channel: ChannelId, fields: dict[str, Any]) -> Command | None:
    """Return the command of a method; ``None`` for a method that no client may send."""
    make = _COMMANDS.get(method)
    if make is None:
        return None
    values = {_RENAMED.get(name, name): value for name, value in fields.items() if name not in _NOT_THE_BROKERS}
    return make(channel=channel, **values)
