"""``dlx settings`` shows the settings of each queue, where each value comes from and which values it overrides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click
import msgspec
from rich.console import Console
from rich.text import Text

from dlx.nearest_names import suggestion
from dlx.policies import PolicyChoice, pattern_found
from dlx.releases import Release, release
from dlx.settings import (
    DEAD_LETTER_STRATEGY,
    DELIVERY_LIMIT,
    OVERFLOW,
    Origin,
    Settings,
    effective_settings,
)
from dlx.topology import STREAM, Policy, Topology
from simulator.analysis.findings import Finding
from simulator.analysis.lint.linting import findings_about
from simulator.analysis.lint.rule import QueueAt
from simulator.cli.command_parts import DataError, example
from simulator.cli.given_source import Source, read_source, source_argument
from simulator.cli.options import chosen_release, release_option
from simulator.cli.tables import show
from simulator.definitions import Definitions, DefinitionsError
from simulator.lint_reports.formats import heading

_WHY = {
    DEAD_LETTER_STRATEGY: "at-least-once needs a dead-letter exchange and overflow reject-publish",
    OVERFLOW: "quorum queues take reject-publish-dlx for drop-head",
    DELIVERY_LIMIT: "what a negative limit means in this release",
}
_LISTS = "without --queue, all are shown"
_EXAMPLES = (
    "dlx settings definitions.json --vhost shop --queue orders",
    "dlx settings http://localhost:15672/ --release 4.3",
    "dlx settings new-policies.json --over http://localhost:15672/",
)


@click.command(epilog=example(*_EXAMPLES))
@source_argument
@click.option("--queue", metavar="NAME", help="Show only this queue.")
@click.option("--vhost", metavar="NAME", help="Show only this virtual host.")
@release_option("RabbitMQ release whose rules apply.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def settings(
    source: Source, over: Source | None, queue: str | None, vhost: str | None, rules: str | None, as_json: bool
) -> None:
    """Show each queue's effective settings, where each value comes from, and what `dlx lint` finds about it.

    SOURCE is a definitions file (`rabbitmqctl export_definitions`, GET /api/definitions), a file or
    folder of YAML or JSON that describes a topology, `-` for standard input, or the management URL of a
    running server.
    """
    definitions = read_source(source, over)
    rules = chosen_release(definitions, rules)
    try:
        found = _resolved(definitions, vhost, queue, release(rules))
    except DefinitionsError as error:
        raise DataError(str(error)) from error
    findings = _findings(definitions, found, release(rules))
    if as_json:
        report = [
            {**_as_json(name, each), "findings": [finding.as_json() for finding in findings(name, each)]}
            for name, each in found
        ]
        click.echo(msgspec.json.encode({"release": rules, "queues": report}).decode())
        return
    console = Console()
    for name, each in found:
        _show(console, name, each, findings(name, each), in_full=queue is not None)
    if not found:
        console.print("There are no queues.")


def _resolved(
    definitions: Definitions, vhost: str | None, queue: str | None, rules: Release
) -> list[tuple[str, Settings]]:
    """Return the settings of the chosen queues, each with its virtual host.

    Raises:
        DefinitionsError: the virtual host or the queue does not exist.
    """
    topologies = _topologies(definitions, vhost)
    found = [
        (name, effective_settings(topology.queues[each], topology, rules))
        for name, topology in topologies.items()
        for each in sorted(topology.queues)
        if queue in (None, each)
    ]
    if queue is not None and not found:
        known = [each for topology in topologies.values() for each in topology.queues]
        raise DefinitionsError(definitions.source, "", f"no queue {queue!r}; {suggestion(queue, known, _LISTS)}")
    return found


def _findings(
    definitions: Definitions, queues: list[tuple[str, Settings]], rules: Release
) -> Callable[[str, Settings], Sequence[Finding]]:
    """Return a function that returns lint's findings about a queue."""

    def place(vhost: str, queue: Settings) -> QueueAt:
        return (vhost if definitions.vhost_named else definitions.vhosts[0]), queue.queue.name

    found = findings_about(definitions, rules, {place(*each) for each in queues})
    return lambda vhost, queue: found[place(vhost, queue)]


def _topologies(definitions: Definitions, vhost: str | None) -> dict[str, Topology]:
    """Return the topologies by virtual host. If the export does not name its virtual host, the one asked for is it."""
    if vhost is not None:
        return {vhost: definitions.topology(vhost)}
    if not definitions.vhost_named:
        return {"": definitions.topology("")}
    return {name: definitions.topology(name) for name in definitions.vhosts}


# -- for people ------------------------------------------------------------------


def _show(console: Console, vhost: str, found: Settings, findings: Sequence[Finding], in_full: bool) -> None:
    where = f" of virtual host {vhost}" if vhost else ""
    console.print(Text(f"{found.queue.name} ({found.queue.type} queue{where})", "bold"), soft_wrap=True)
    rows = []
    for setting in found.values.values():
        hidden = ", ".join(f"{_text(value)} ({origin})" for value, origin in setting.hidden)
        rows.append((f"  {setting.key}", _text(setting.value), str(setting.origin), hidden))
    show(console, ("  setting", "value", "from", "hides"), rows)
    for line in _remarks(found, in_full):
        console.print(Text(f"  {line}"), soft_wrap=True)
    for finding in findings:
        console.print(Text("  ") + heading(finding), soft_wrap=True)
    console.print()


def _remarks(found: Settings, in_full: bool) -> list[str]:
    lines = [
        f"in force: {key} {'unlimited' if value is None else value}: {_WHY[key]}"
        for key, value in _in_force(found).items()
    ]
    lines += [
        f"ignored: {setting.key} {_text(setting.value)} ({setting.origin}): {why}" for setting, why in found.ignored
    ]
    if found.queue.type != STREAM and not found.dead_letters:
        lines.append("dead messages are dropped: there is no dead-letter exchange")
    for kind, choice in _choices(found).items():
        lines += _about(kind, choice, found.queue.name, in_full)
    return lines


def _about(kind: str, choice: PolicyChoice, queue: str, in_full: bool) -> list[str]:
    """Return the remarks on the policies. Unless ``in_full``, policies for other names are only counted."""
    lines = []
    if choice.policy is not None:
        lines.append(f"{kind}: {choice.policy.name} (priority {choice.policy.priority})")
    if choice.tied:
        names = ", ".join(policy.name for policy in choice.tied)
        lines.append(f"tied {kind}: {names}: of equal priorities RabbitMQ may take any")
    told = [each for each in choice.skipped if in_full or pattern_found(each.policy.pattern, queue)]
    lines += [f"skipped {kind}: {skipped.policy.name}: {skipped.why}" for skipped in told]
    others = len(choice.skipped) - len(told)
    return lines + ([f"skipped {kind}: {others} for queues of other names"] if others else [])


def _text(value: Any) -> str:
    """Return a value as definitions.json writes it; an empty name gets quotes, so that it can be seen."""
    return value if isinstance(value, str) and value else msgspec.json.encode(value).decode()


# -- for machines ----------------------------------------------------------------


def _as_json(vhost: str, found: Settings) -> dict[str, Any]:
    return {
        "vhost": vhost or None,
        "queue": found.queue.name,
        "type": found.queue.type,
        "dead_letters": found.dead_letters,
        "in_force": _in_force(found),
        "settings": {
            key: {
                "value": setting.value,
                "origin": _origin(setting.origin),
                "hidden": [{"value": value, "origin": _origin(origin)} for value, origin in setting.hidden],
            }
            for key, setting in found.values.items()
        },
        "ignored": [
            {"key": setting.key, "value": setting.value, "origin": _origin(setting.origin), "why": why}
            for setting, why in found.ignored
        ],
        **{kind.replace(" ", "_"): _choice(choice) for kind, choice in _choices(found).items()},
    }


def _choice(choice: PolicyChoice) -> dict[str, Any]:
    return {
        "applies": None if choice.policy is None else _policy(choice.policy),
        "tied": [_policy(policy) for policy in choice.tied],
        "skipped": [{**_policy(skipped.policy), "why": skipped.why} for skipped in choice.skipped],
    }


def _policy(policy: Policy) -> dict[str, Any]:
    return {"name": policy.name, "priority": policy.priority}


def _origin(origin: Origin) -> dict[str, str]:
    return {"kind": origin.kind, **({"name": origin.name} if origin.name else {})}


def _in_force(found: Settings) -> dict[str, Any]:
    """Return the settings that take effect with another value than the written one; ``None`` is unlimited."""
    in_force = {
        DEAD_LETTER_STRATEGY: found.dead_letter_strategy,
        OVERFLOW: found.overflow,
        DELIVERY_LIMIT: found.delivery_limit,
    }
    return {key: value for key, value in in_force.items() if key in found.values and found.values[key].value != value}


def _choices(found: Settings) -> dict[str, PolicyChoice]:
    return {"policy": found.policy, "operator policy": found.operator_policy}
