"""Chooses the queue and the queue manager that the handler reads from all that can name one.

Source: IBM MQ's documentation of runmqdlq and of control data.
"""

from __future__ import annotations

from collections.abc import Sequence

from simulator.systems.ibm_mq.rules_table import Control


def input_queue(
    control: Control, arguments: Sequence[str], *, dead_letter_queue: str, queue_manager: str
) -> tuple[str, str]:
    """Choose the queue and the queue manager.

    A positional argument wins over the table, the table over the default.

    ``arguments``: queue and queue manager as on the command line, both optional. A queue of blanks stands
    for ``dead_letter_queue``, whatever the table says. ``queue_manager``: the default one.
    """
    named = list(arguments) + [None] * (2 - len(arguments))
    queue = control.inputq if named[0] is None else _until_blank(named[0])
    manager = control.inputqm if named[1] is None else _until_blank(named[1])
    return queue or dead_letter_queue, manager or queue_manager


def _until_blank(name: str) -> str:
    """Return the name, which ends at its first blank."""
    return name.partition(" ")[0]
