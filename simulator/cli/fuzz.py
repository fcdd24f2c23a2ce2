"""``dlx fuzz``: tries to break a promise of a topology."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import msgspec

from dlx.releases import DEFAULT, RELEASES
from simulator.cli.errors import DataError
from simulator.cli.progress import countdown
from simulator.definitions import DefinitionsError, read_definitions
from simulator.testing import steps
from simulator.testing.properties import INVARIANTS, PROMISES
from simulator.testing.search import Finding, Search

SECONDS = 12.0
STEPS = 40
EXIT_BROKEN = 1


@click.command()
@click.argument("definitions_path", metavar="DEFINITIONS", type=click.Path(path_type=Path))
@click.option(
    "--property",
    "name",
    type=click.Choice([*PROMISES, *INVARIANTS]),
    default="lossless",
    show_default=True,
    help="What to break.",
)
@click.option(
    "--release", type=click.Choice(RELEASES), default=DEFAULT, show_default=True, help="The RabbitMQ release."
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the random histories.")
@click.option(
    "--steps",
    "steps_max",
    type=click.IntRange(1, 10_000),
    default=STEPS,
    show_default=True,
    help="Steps of a random history at most.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0),
    default=SECONDS,
    show_default=True,
    help="How long to try, if nothing is found.",
)
@click.option(
    "--publish",
    "publishes",
    nargs=2,
    multiple=True,
    metavar="EXCHANGE ROUTING_KEY",
    help="What publishers publish; may be given more than once. Without it, all that the bindings take.",
)
@click.option("--history", metavar="JSON|FILE", help="Play this history instead, such as --json prints.")
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
    """Look for a history that breaks a promise of a topology.

    DEFINITIONS is what `rabbitmqctl export_definitions` or GET /api/definitions
    writes. First every way that one message can go is tried, then random histories.
    Exit code 0: nothing was found. 1: the property is broken; the shortest history
    found is printed. The properties:

    \b
    lossless  no message that was routed ends otherwise than acknowledged or still in a queue
    settles   no message comes back to a queue again and again without time passing
    punctual  a message leaves its queue when its time to live ends
    accepts   no queue refuses a publish
    """
    try:
        read_definitions(definitions_path)
        given = [steps.Publish(exchange, key) for exchange, key in publishes]
        search = Search(definitions_path, name, release=release, publishes=given)
    except DefinitionsError as error:
        raise DataError(str(error)) from error
    if history is not None:
        found = search.play(_read_history(history))
    else:
        found, seed = _search(search, seed, steps_max, seconds)
    if as_json:
        click.echo(msgspec.json.encode(_as_json(search, found, seed)).decode())
    elif found is None:
        _say_held(search, history is not None)
    else:
        click.echo(_told(search, found, seed, steps_max))
    return EXIT_BROKEN if found else 0


def _search(search: Search, seed: int, steps_max: int, seconds: float) -> tuple[Finding | None, int]:
    """Try everything in order, then at random; what was found, and the seed that finds it."""
    from simulator.testing.random_search import search_at_random

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
    """Whether Ctrl-C was pressed. (An exception out of the blue may get lost in a callback of a library.)"""
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


def _read_history(text: str) -> steps.History:
    """A history from JSON, or from a file with it: a list of steps, or what ``--json`` printed."""
    try:
        source = "--history" if text.lstrip().startswith(("[", "{")) else text
        data: Any = msgspec.json.decode(text if source == "--history" else Path(text).read_bytes())
        return steps.from_builtins(data["history"] if isinstance(data, dict) and "history" in data else data)
    except OSError as error:
        raise DataError(f"{text}: {error.strerror}; expected a history as JSON, or a file that holds one") from error
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise DataError(f"{source}: {error}; expected a list of steps such as --json prints") from error


def _as_json(search: Search, found: Finding | None, seed: int) -> dict[str, Any]:
    report: dict[str, Any] = {
        "property": search.property.name,
        "held": found is None,
        "history": [] if found is None else steps.to_builtins(found.history),
        "seed": seed,
        "release": search.release,
        "tried": search.tried,
        "untried": search.untried,
    }
    return report if found is None else report | {"why": found.broken.why, "note": found.note}


def _say_held(search: Search, one_history: bool) -> None:
    held = f"{search.property.name} held: {search.property.promise}."
    if one_history:
        click.echo(f"{held} This history does not break it.")
        return
    click.echo(f"{held} {search.tried:,} histories were tried.")
    if not search.publishes:
        click.echo("There is no queue that a message could get into, so nothing was published.")
    for each in search.untried:
        click.echo(f"Not tried: {each}.")


def _told(search: Search, found: Finding, seed: int, steps_max: int) -> str:
    from simulator.testing.machine import command, shell
    from simulator.testing.report import explained

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
    )
    return f"{told}\n\n{found.note}" if found.note else told
