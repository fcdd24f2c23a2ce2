"""Finds the operation that carries out a command, and ends the channel or connection of a command that is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from dlx import amqp_errors
from simulator.broker import commands
from simulator.broker.operations import (
    acknowledgements,
    administration,
    connections,
    consumers,
    declaring,
    definitions_import,
    definitions_taken,
    limits,
    publishing,
    users,
)
from simulator.broker.replies import ChannelClosed, ConnectionClosed
from simulator.broker.state import NodeState


def refuse(node: NodeState, command: Any, refusal: amqp_errors.Refusal) -> None:
    """End the channel or the connection of a client whose command is refused."""
    refusal = amqp_errors.as_told(refusal, node.release)
    method = "" if _is_nameless(command, refusal) else commands.METHODS.get(type(command), "")
    if isinstance(command, commands.OpenConnection):
        node.out.append(ConnectionClosed(command.connection, refusal.code, refusal.text, method))
        return
    end(node, command.channel, refusal, method)


def end(node: NodeState, channel_id: commands.ChannelId, refusal: amqp_errors.Refusal, method: str = "") -> None:
    """End a client's channel, or its connection where the refusal is of that kind."""
    connection, number = channel_id
    channel = node.channels.get(channel_id)
    if refusal.ends_connection or channel is None:
        node.out.append(
            ConnectionClosed(connection, refusal.code, refusal.text, method, number, refusal.silent, refusal.uncut)
        )
        connections.close_connection(node, commands.CloseConnection(connection))
    else:
        node.out.append(ChannelClosed(channel.id, refusal.code, refusal.text, method, refusal.uncut))
        connections.lose_channel(node, channel)


def _is_nameless(command: Any, refusal: amqp_errors.Refusal) -> bool:
    """Return whether the refusal does not say which method it refuses.

    An internal error without a text is a crash: by then the server no longer knows the method. For a
    channel beyond a limit it does not know it yet.
    """
    return refusal.is_crash or (isinstance(command, commands.OpenChannel) and refusal.code == 530)


def _pass_time(_node: NodeState, _command: commands.PassTime) -> None:
    """Do nothing: what was due has happened before any command."""


Steps = Iterator[None]
"""What is left to do of a long operation, to be iterated over: it pauses after each step."""

OPERATIONS: dict[type, Callable[[NodeState, Any], Steps | None]] = {
    commands.Publish: publishing.publish,
    commands.CheckTarget: publishing.check_target,
    commands.Ack: acknowledgements.ack,
    commands.Nack: acknowledgements.nack,
    commands.Reject: acknowledgements.reject,
    commands.Settle: acknowledgements.settle,
    commands.Recover: acknowledgements.recover,
    commands.Get: consumers.get,
    commands.Consume: consumers.consume,
    commands.Cancel: consumers.cancel,
    commands.GrantCredit: consumers.grant_credit,
    commands.DetachLink: acknowledgements.detach_link,
    commands.Qos: consumers.qos,
    commands.SetFlow: consumers.set_flow,
    commands.SelectConfirms: publishing.select_confirms,
    commands.SelectTransactions: publishing.select_transactions,
    commands.Commit: publishing.commit,
    commands.Rollback: publishing.rollback,
    commands.DeclareExchange: declaring.declare_exchange,
    commands.DeleteExchange: declaring.delete_exchange,
    commands.BindExchange: declaring.bind_exchange,
    commands.UnbindExchange: declaring.unbind_exchange,
    commands.DeclareQueue: declaring.declare_queue,
    commands.BindQueue: declaring.bind_queue,
    commands.UnbindQueue: declaring.unbind_queue,
    commands.PurgeQueue: declaring.purge_queue,
    commands.DeleteQueue: declaring.delete_queue,
    commands.OpenConnection: connections.open_connection,
    commands.CloseConnection: connections.close_connection,
    commands.OpenChannel: connections.open_channel,
    commands.CloseChannel: connections.close_channel,
    commands.PauseDeliveries: connections.pause,
    commands.ResumeDeliveries: connections.resume,
    commands.AddVhost: administration.add_vhost,
    commands.DeleteVhost: administration.delete_vhost,
    commands.AddUser: users.add_user,
    commands.PutUser: users.put_user,
    commands.DeleteUser: users.delete_user,
    commands.SetPermissions: users.set_permissions,
    commands.ClearPermissions: users.clear_permissions,
    commands.SetTopicPermissions: users.set_topic_permissions,
    commands.ClearTopicPermissions: users.clear_topic_permissions,
    commands.SetPolicy: administration.set_policy,
    commands.ClearPolicy: administration.clear_policy,
    commands.ImportDefinitions: definitions_import.import_definitions,
    commands.TakeDefinitions: definitions_taken.take_definitions,
    commands.SetVhostLimits: limits.set_vhost_limits,
    commands.SetUserLimits: limits.set_user_limits,
    commands.ClearUserLimit: limits.clear_user_limit,
    commands.SetParameter: administration.set_parameter,
    commands.ClearShovel: administration.clear_shovel,
    commands.ReportShovel: administration.report_shovel,
    commands.SetGlobalParameter: administration.set_global_parameter,
    commands.ClearGlobalParameter: administration.clear_global_parameter,
    commands.SetTracing: administration.set_tracing,
    commands.ProtectVhost: administration.protect_vhost,
    commands.ResetCounters: administration.reset_counters,
    commands.PassTime: _pass_time,
}
