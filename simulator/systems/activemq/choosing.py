"""Which consumer of a queue gets a message: in turn, by priority, the exclusive one, the owner of a message group.

Source: activemq-broker, Queue.doActualDispatch, addSubscription, removeSubscription, assignMessageGroup,
orderedCompare; QueueDispatchSelector.
"""

from __future__ import annotations

from collections.abc import Sequence

from simulator.systems.activemq.messages import Message
from simulator.systems.activemq.stores import Attached, Held, Receiver, Store

_FIRST = 1
"""The number of a group's first message: who gets it owns the group, whoever did before."""


def takes(receiver: Receiver, message: Message) -> bool:
    """Return whether a consumer's selector selects the message."""
    return receiver.selector is None or receiver.selector.selects(message)


def join(store: Store, attached: Attached) -> None:
    """Let a consumer come to a store. The first that is to be exclusive is, or one of a higher priority."""
    store.attached.append(attached)
    _in_order(store)
    exclusive = store.exclusive
    if _is_exclusive(store, attached) and (
        exclusive is None or attached.receiver.priority > exclusive.receiver.priority
    ):
        store.exclusive = attached


def leave(store: Store, leaving: Sequence[Attached]) -> None:
    """Let consumers go away: another is exclusive, and their groups are free."""
    store.attached = [each for each in store.attached if each not in leaving]
    store.groups = {name: owner for name, owner in store.groups.items() if owner not in leaving}
    if store.exclusive in leaving:
        candidates = [each for each in store.attached if _is_exclusive(store, each)]
        store.exclusive = max(candidates, key=lambda each: each.receiver.priority, default=None)


def choose(store: Store, held: Held) -> Attached | None:
    """Return the consumer that gets a message, which then comes last; ``None`` where none may have it now.

    One that a transaction has acknowledged gives its group to a consumer, which does not get it yet.
    """
    for attached in store.attached:
        if not attached.window.full and _may_have(store, attached, held.message):
            _assign_group(store, attached, held.message)
            if held.acked:
                continue
            if store.exclusive is not attached:
                store.attached.remove(attached)
                store.attached.append(attached)
                _in_order(store)
            return attached
    return None


def _is_exclusive(store: Store, attached: Attached) -> bool:
    return not store.topic_subscriber and (attached.receiver.exclusive or store.policy.all_exclusive)


def _in_order(store: Store) -> None:
    """Those of a higher priority first; where there are groups, then those that own fewer."""
    if not store.topic_subscriber:
        store.attached.sort(key=lambda each: (-each.receiver.priority, each.groups))


def _may_have(store: Store, attached: Attached, message: Message) -> bool:
    if not takes(attached.receiver, message) or store.topic_subscriber:
        return takes(attached.receiver, message)
    if store.exclusive not in (None, attached):
        return False
    owner = store.groups.get(message.group or "")
    return owner in (None, attached) or message.group_sequence == _FIRST


def _assign_group(store: Store, attached: Attached, message: Message) -> None:
    """Let a consumer own the group of a message that it gets; a negative number ends the group."""
    if message.group is None or store.topic_subscriber:
        return
    if message.group not in store.groups or message.group_sequence == _FIRST:
        store.groups[message.group] = attached
        attached.groups += 1
    elif message.group_sequence < 0:
        del store.groups[message.group]
        attached.groups -= 1
