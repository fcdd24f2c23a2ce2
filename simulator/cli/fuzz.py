"""``dlx fuzz`` searches for a history that breaks a property of a topology, such as that it loses nothing."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import msgspec
from click.core import ParameterSource

from dlx.releases import DEFAULT, RELEASES
from simulator.broker import OperatorError
from simulator.cli.command_parts import DataError, example
from simulator.cli.given_files import DEFINITIONS
from simulator.cli.given_history import GivenHistory, read_history
from simulator.cli.given_release import RELEASE
from simulator.cli.progress import countdown
from simulator.definitions import DefinitionsError
from simulator.scenario import steps
from simulator.scenario.properties.property_registry import INVARIANTS, PROMISES
from simulator.scenario.unknown_names import unknown_names
from simulator.testing.search.counterexample import Counterexample
from simulator.testing.search.systematic_search import Search

SECONDS, SECONDS_MAX = 12.0, 7 * 86_400.0
STEPS = 40
SHORTEST = "The shortest history found"
NOTHING_FOUND = {
    "lossless": "No loss found",
    "settles": "No loop found",
    "punctual": "No delay found",
    "accepts": "No refusal found",
}
EXIT_BROKEN, EXIT_FAULT = 1, 70


@click.command(epilog=example("dlx fuzz definitions.json --property lossless --release 4.3 --publish shop order.paid"))
@click.argument("definitions_path", metavar="DEFINITIONS", type=DEFINITIONS)
@click.option(
    "--property",
    "name",
    type=click.Choice([*PROMISES, *INVARIANTS]),
    default="lossless",
    show_default=True,
    help="Property to break.",
)
@click.option("--release", type=RELEASE, default=DEFAULT, show_default=True, help="RabbitMQ release to simulate.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of the random histories.")
@click.option(
    "--steps",
    "steps_max",
    type=click.IntRange(1, 10_000),
    default=STEPS,
    show_default=True,
    help="Longest random history, in steps.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, max=SECONDS_MAX),
    callback=lambda _context, _parameter, value: _number(value),
    default=SECONDS,
    show_default=True,
    help="Give up after this many seconds without a finding.",
)
@click.option(
    "--publish",
    "publishes",
    nargs=2,
    multiple=True,
    metavar="EXCHANGE ROUTING_KEY",
    help="Exchange and routing key that publishers use; repeatable. [default: keys that together reach every binding]",
)
@click.option(
    "--history", metavar="JSON|FILE", help="Play this history instead of searching: JSON, or a file that --json wrote."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def fuzz(
    definitions_path: Path,
    name: str,
    release: str,
    seed: int,
    steps_max: int,
    seconds: float,
    publishes: tuple[tuple[str, str], ...],
    history: str | None,
    as_json: bool,
) -> int:
    """Search for a history in which a topology loses messages, or breaks another property.

    DEFINITIONS is a file written by `rabbitmqctl export_definitions` or GET /api/definitions.
    The search first tries every path that one message can take, then random histories.
    It exits with 0 if it finds nothing. If it breaks the property, it prints the shortest
    history found and exits with 1. The properties:

    \b
    lossless  every routed message is acknowledged or stays in a queue
    settles   no message returns to a queue over and over at one instant
    punctual  every message leaves its queue when its time to live ends
    accepts   no queue refuses a publish

    Four more properties hold on any correct broker: conservation, x-death, settings and rest.
    If one of them breaks while you test another, you have found a bug in dlx: exit code 70.
    """
    given = None if history is None else read_history(history)
    if given is not None:
        name, release = _as_recorded(given, name, release)
    try:
        search = Search(definitions_path, name, release=release)
    except DefinitionsError as error:
        raise DataError(str(error)) from error
    if publishes:
        search.publishes = _published(search, publishes)
    if given is not None:
        found = _replayed(search, given.history)
    else:
        found, seed = _search(search, seed, steps_max, seconds)
    if as_json:
        click.echo(msgspec.json.encode(_as_json(search, found, seed)).decode())
    elif found is None:
        _say_held(search, history is not None)
    else:
        click.echo(_told(search, found, seed, steps_max, "The history" if given else SHORTEST))
    if found is None:
        return 0
    return EXIT_BROKEN if found.broken.property == name else EXIT_FAULT


def _number(value: float) -> float:
    if math.isnan(value):
        raise click.BadParameter("nan is not a number of seconds")
    return value


def _published(search: Search, publishes: tuple[tuple[str, str], ...]) -> list[steps.Publish]:
    """Return each publish in every virtual host that routes it.

    Raises:
        BadParameter: no virtual host routes a publish, or its exchange is internal.
    """
    found: list[steps.Publish] = []
    for exchange, key in publishes:
        tried = [steps.Publish(exchange, key, vhost=vhost) for vhost in search.topologies]
        routed = [step for step in tried if search.first_queues(step)]
        if not routed:
            known = [step for step in tried if not unknown_names([step], search.topologies)]
            why = "" if known else "; ".join(unknown_names(tried[:1], search.topologies))
            raise click.BadParameter(f"{exchange!r} {key!r}: {why or 'no queue receives it'}", param_hint="'--publish'")
        if any(search.topologies[step.vhost].exchanges[exchange].internal for step in routed):
            raise click.BadParameter(f"{exchange!r} is internal: nobody can publish to it", param_hint="'--publish'")
        found += routed
    return found


def _as_recorded(given: GivenHistory, name: str, release: str) -> tuple[str, str]:
    """Return the property and release that the history was found with, unless the command line names others."""
    said = click.get_current_context().get_parameter_source
    if given.property in (*PROMISES, *INVARIANTS) and said("name") is ParameterSource.DEFAULT:
        name = given.property or name
    if given.release in RELEASES and said("release") is ParameterSource.DEFAULT:
        release = given.release or release
    return name, release


def _replayed(search: Search, history: steps.History) -> Counterexample | None:
    unknown = unknown_names(history, search.topologies)
    if unknown:
        raise DataError(f"--history: {'; '.join(unknown)}")
    try:
        return search.play(history)
    except OperatorError as error:
        raise DataError(f"--history: RabbitMQ refuses a step: {error}") from error


def _search(search: Search, seed: int, steps_max: int, seconds: float) -> tuple[Counterexample | None, int]:
    """Search systematically, then at random. Return the counterexample, if any, and the seed that leads to it."""
    from simulator.testing.search.random_search import search_at_random

    end = time.monotonic() + seconds
    with countdown(f"trying to break '{search.property.name}'", seconds) as show, _interrupts() as interrupted:

        def tick(tried: int) -> bool:
            if interrupted():
                raise KeyboardInterrupt
            show(tried)
            return time.monotonic() < end

        found = search.run(tick)
        if found is not None or not search.publishes:
            return found, seed
        return search_at_random(search, seed, steps_max, tick)


@contextmanager
def _interrupts() -> Iterator[Callable[[], bool]]:
    """Yield a function that tells whether Ctrl-C was pressed.

    (A library may swallow a KeyboardInterrupt that is raised in one of its callbacks.)
    """
    pressed: list[int] = []
    try:
        before = signal.signal(signal.SIGINT, lambda number, _frame: pressed.append(number))
    except ValueError:  # only the main thread may
        yield lambda: False
        return
    try:
        yield lambda: bool(pressed)
    finally:
        signal.signal(signal.SIGINT, before)


def _as_json(search: Search, found: Counterexample | None, seed: int) -> dict[str, Any]:
    report: dict[str, Any] = {
        "property": search.property.name if found is None else found.broken.property,
        "held": found is None,
        "history": [] if found is None else steps.to_builtins(found.history),
        "seed": seed,
        "release": search.release,
        "tried": search.tried,
        "untried": search.untried,
    }
    return report if found is None else report | {"why": found.broken.why, "note": found.note}


def _say_held(search: Search, one_history: bool) -> None:
    if one_history:
        click.echo(f"This history does not break '{search.property.name}'.")
        return
    nothing = NOTHING_FOUND.get(search.property.name, "No fault found")
    click.echo(f"{nothing}: {search.property.promise}. The search tried {search.tried:,} histories.")
    if not search.publishes:
        click.echo("No message can get into any queue, so nothing was published.")
    for each in search.untried:
        click.echo(f"Not tried: {each}.")


def _told(search: Search, found: Counterexample, seed: int, steps_max: int, heading: str) -> str:
    from simulator.testing.search.failure_report import explained
    from simulator.testing.topology_machine import command, shell

    again = shell(
        "dlx", "fuzz", search.definitions, "--property", search.property.name,
        "--release", search.release, "--seed", seed, "--steps", steps_max,
    )  # fmt: skip
    replay = command(search.definitions, found.history, search.property.name, search.release) or again
    told = explained(
        search.definitions,
        found.history,
        found.broken,
        release=search.release,
        command=replay,
        events=found.events(search.release),
        heading=heading,
    )
    return f"{told}\n\n{found.note}" if found.note else told
