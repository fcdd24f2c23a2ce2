"""Runs a neutral scenario under several systems, each by an adapter that is loaded on first use.

Another distribution adds an adapter by an entry point in the group
``dlx.compare_adapters``: the system's name, and an ``Adapter``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from dlx.plugins import Registry
from simulator.systems.compare.neutral_scenario import NeutralScenario
from simulator.systems.compare.outcome import Ran, SystemOutcome, fates, path


class Adapter(Protocol):
    """A system as ``compare`` runs it: a module, or an object.

    It may have a function ``check_version`` besides, which takes a version that is not in ``VERSIONS`` and raises
    ``ValueError`` unless ``run`` takes it, too.

    Attributes:
        VERSIONS: the releases or profiles, the default first.
        LIMIT: where the limit of deliveries lives, in words; an adapter may leave it out.
    """

    VERSIONS: Sequence[str]

    def run(self, neutral: NeutralScenario, version: str) -> Ran:
        """Run the scenario under one of ``VERSIONS``, or another that ``check_version`` allows, in virtual time.

        The built-in ones take a third argument, ``own``: what the system is configured with, in its own form, in
        place of what comes closest to the scenario.
        """


ADAPTERS = Registry(
    "dlx.compare_adapters",
    "adapter",
    {
        "rabbitmq": "simulator.systems.compare.rabbitmq",
        "activemq": "simulator.systems.activemq.adapter",
        "zaqar": "simulator.systems.zaqar.adapter",
        "ironmq": "simulator.systems.ironmq.adapter",
        "ibm_mq": "simulator.systems.ibm_mq.adapter",
    },
    needs=("VERSIONS", "run"),
)
"""The adapters by their system's name, the built-in ones first."""


def compare(neutral: NeutralScenario, systems: Sequence[str]) -> list[SystemOutcome]:
    """Run a scenario under each system, in virtual time.

    Args:
        neutral: the scenario.
        systems: names of ``ADAPTERS``, each with a release or profile after a colon if it is not to be the
            default: ``rabbitmq:3.10``, ``zaqar:mongodb``.

    Raises:
        ValueError: there is no such system or version; nothing has been run then.
        dlx.plugins.PluginError: another distribution adds the system, and it cannot be loaded.
    """
    chosen = [named(system) for system in systems]
    return [_outcome(neutral, system, version) for system, version in chosen]


def named(text: str) -> tuple[str, str]:
    """Return a system and its version by ``zaqar:mongodb``. Raises ``ValueError`` if there is none."""
    system, _, version = text.partition(":")
    if system not in ADAPTERS:
        raise ValueError(f"no system {system!r}; expected some of {', '.join(ADAPTERS)}")
    adapter = load(system)
    versions = adapter.VERSIONS
    if version and version not in versions:
        check = getattr(adapter, "check_version", None)
        if check is None:
            raise ValueError(f"no {system} {version!r}; expected one of {', '.join(versions)}")
        check(version)
    return system, version or versions[0]


def load(system: str) -> Adapter:
    """Return a system's adapter. Raises ``dlx.plugins.PluginError``."""
    adapter: Adapter = ADAPTERS.load(system)
    return adapter


def _outcome(neutral: NeutralScenario, system: str, version: str) -> SystemOutcome:
    adapter = load(system)
    ran = adapter.run(neutral, version)
    messages = fates(neutral, ran)
    way = path(ran.events, {fate.message: fate.outcome for fate in messages})
    return SystemOutcome(
        system=system,
        version=version,
        messages=messages,
        notes=ran.notes,
        path=way,
        scenario=ran.scenario,
        limit=getattr(adapter, "LIMIT", ""),
    )
