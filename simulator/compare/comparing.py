"""Runs a history under several systems, each by an adapter that is loaded on first use."""

from __future__ import annotations

import importlib
from collections.abc import Sequence

from simulator.compare.history import History
from simulator.compare.outcome import Outcome, fates

# A system's name, and its adapter: `VERSIONS`, the first of which is the default, and `run(history, version)`.
ADAPTERS = {
    "rabbitmq": "simulator.compare.rabbitmq",
    "activemq": "simulator.compare.activemq",
    "zaqar": "simulator.compare.zaqar",
    "ironmq": "simulator.compare.ironmq",
    "ibm_mq": "simulator.compare.ibm_mq",
}


def compare(history: History, systems: Sequence[str]) -> list[Outcome]:
    """Run a history under each system, on virtual time.

    Args:
        history: what happens.
        systems: names of ``ADAPTERS``, each with a release or profile after a colon if it is not to be the
            default: ``rabbitmq:3.10``, ``zaqar:mongodb``.

    Raises ``ValueError`` for a system or version that there is not, before anything is run.
    """
    chosen = [_chosen(system) for system in systems]
    return [_outcome(history, system, version) for system, version in chosen]


def _chosen(text: str) -> tuple[str, str]:
    system, _, version = text.partition(":")
    if system not in ADAPTERS:
        raise ValueError(f"no system {system!r}; expected some of {', '.join(ADAPTERS)}")
    versions = importlib.import_module(ADAPTERS[system]).VERSIONS
    if version and version not in versions:
        raise ValueError(f"no {system} {version!r}; expected one of {', '.join(versions)}")
    return system, version or versions[0]


def _outcome(history: History, system: str, version: str) -> Outcome:
    ran = importlib.import_module(ADAPTERS[system]).run(history, version)
    messages = fates(history, ran)
    return Outcome(system=system, version=version, messages=messages, notes=ran.notes, scenario=ran.scenario)
