"""Carries out what happens by itself: effects as soon as the step that set them off is done, deadlines when due.

Two tables say which operation carries out which effect and which deadline. Both functions pause after each step:
the broker goes on at once, a server lets other clients have their turn in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from simulator.broker.effects import (
    Crashed,
    DeadLettered,
    DeadMessageHeld,
    DeliveryFailed,
    Effect,
    Leaving,
    PoliciesChanged,
    Retried,
    Shovelled,
    ShovelLost,
    Traced,
)
from simulator.broker.operations import (
    administration,
    connections,
    dead_letter_worker,
    delayed_exchanges,
    publishing,
    queue_lifecycle,
    queues,
    shovels,
)
from simulator.broker.replies import Reminded
from simulator.broker.state import NodeState
from simulator.broker.state.node import DueKind

# A loop of dead letters must not hang the caller: after that many steps the rest waits for the next millisecond,
# and after that many milliseconds for the next call.
STEPS_IN_ONE_INSTANT = 100_000
STEPS_FOR_EACH = 10  # where more than that many messages die at once
INSTANTS_IN_ONE_CALL = 3

_EFFECTS: dict[type[Effect], Callable[[NodeState, Any], None]] = {
    Crashed: queue_lifecycle.restart,
    DeadLettered: queues.arrive,
    DeliveryFailed: connections.delivery_failed,
    DeadMessageHeld: dead_letter_worker.held,
    Leaving: queues.leave,
    PoliciesChanged: administration.reconfigure,
    Retried: dead_letter_worker.retried,
    Shovelled: shovels.shovelled,
    ShovelLost: shovels.lost,
    Traced: publishing.publish_trace,
}


def work_off(node: NodeState) -> Iterator[None]:
    """Carry out what is on the agenda, first come, first served, until it is empty or there is too much of it."""
    agenda = node.agenda
    if node.resting:
        return
    enough = 0 if node.overruns else STEPS_FOR_EACH * _size(agenda)  # a loop that multiplies must not set it
    for _ in range(max(STEPS_IN_ONE_INSTANT, enough)):
        if not agenda:
            node.overruns = 0
            return
        effect = agenda.popleft()
        _EFFECTS[type(effect)](node, effect)
        yield
    node.cut_short = True
    node.overruns += 1
    since_us = node.now_us if node.overruns < INSTANTS_IN_ONE_CALL else max(node.now_us, node.until_us)
    node.resting = True
    node.timers.set(since_us + 1_000, "agenda", None)


def _size(agenda: Iterable[Effect]) -> int:
    return sum([len(effect.copies) if isinstance(effect, Leaving) else 1 for effect in agenda])


def catch_up(node: NodeState) -> Iterator[None]:
    """Do all that is due until ``node.until_us``, each thing at its own time."""
    timers, until_us = node.timers, node.until_us
    while node.handed_out < node.hand_out_max and (deadline := timers.pop(until_us)) is not None:
        due_us, _, kind, subject = deadline
        if due_us > node.now_us:
            node.now_us = due_us
        _DEADLINES[kind](node, due_us, subject)
        yield
        if node.agenda:
            yield from work_off(node)


def _remind(node: NodeState, _due_us: int, number: int) -> None:
    """Tell the driver that it is time."""
    node.out.append(Reminded(number))


def _rested(node: NodeState, _due_us: int, _subject: None) -> None:
    """Let what was left over be worked off."""
    node.resting = False


_DEADLINES: dict[DueKind, Callable[[NodeState, int, Any], None]] = {
    "queue": queues.due,
    "unused": queue_lifecycle.unused_due,
    "retry": dead_letter_worker.due,
    "delayed": delayed_exchanges.due,
    "acknowledgement": connections.look_for_late_deliveries,
    "shovel": shovels.due,
    "agenda": _rested,
    "driver": _remind,
}
