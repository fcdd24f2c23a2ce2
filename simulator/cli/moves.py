"""``dlx compare --to``: says what the move of a topology to another system keeps, changes and loses."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.console import Console
from rich.text import Text

from simulator.analysis.findings import few
from simulator.cli.command_parts import DataError, print_json, writing
from simulator.cli.given_source import Source, named, read_source
from simulator.cli.lines import print_indented
from simulator.cli.options import chosen_release
from simulator.cli.progress import progress
from simulator.definitions import DefinitionsError
from simulator.extras import check_installed
from simulator.files import write_whole
from simulator.systems.compare import comparing
from simulator.systems.move import Move, MoveFinding, move

EXIT_DIFFERENCES = 1
_STYLES = {"lost": "bold red", "cannot be had": "bold yellow", "changes": "bold blue", "kept": "bold green"}
_SYSTEMS = {"rabbitmq": "RabbitMQ", "activemq": "ActiveMQ", "zaqar": "Zaqar", "ironmq": "IronMQ", "ibm_mq": "IBM MQ"}
_WIDTH_MAX = 110
_NAMES_SHOWN = 5


def answer_move(
    source: Source, over: Source | None, before: str | None, to: str, write: Path | None, *, as_json: bool
) -> int:
    """Answer, and return the exit code. Raises ``ExtraMissingError``."""
    if to.partition(":")[0] == "activemq":
        check_installed("activemq")
    release = _release(before)
    definitions = read_source(source, over)
    try:
        with progress("playing the queues"):
            moved = move(definitions, chosen_release(definitions, release), to)
    except DefinitionsError as error:
        raise DataError(str(error)) from error
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--to") from error
    if write is not None:
        _write(write, moved.files)
    if as_json:
        print_json(_as_json(moved, named(source)))
    else:
        _show(moved, named(source), write)
    return EXIT_DIFFERENCES if moved.differs else 0


def _release(before: str | None) -> str | None:
    """Return the release in ``rabbitmq:4.2``; ``None`` if none is named."""
    system, _, release = (before or "rabbitmq").partition(":")
    if system != "rabbitmq":
        raise click.BadParameter(f"{before}: topologies are read of rabbitmq alone", param_hint="--from")
    try:
        comparing.named(before or system)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--from") from error
    return release or None


def _write(folder: Path, files: dict[str, str]) -> None:
    """Write the files. Raises ``DataError`` where one cannot be written."""
    with writing(folder):
        folder.mkdir(exist_ok=True)
        for name, text in files.items():
            write_whole(folder / name, text.encode())


def _as_json(moved: Move, source: str) -> dict[str, Any]:
    told: dict[str, Any] = {"source": source, "from": moved.before, "to": moved.after}
    findings = [
        {**msgspec.to_builtins(each), "about": [msgspec.to_builtins(about) for about in each.about]}
        for each in moved.findings
    ]
    names = [{**msgspec.to_builtins(about), "there": name} for about, name in moved.names.items()]
    rest = {name: getattr(moved, name) for name in ("limits", "files", "assumed", "not_played")}
    return told | {"counts": moved.counts, "findings": findings, "names": names} | rest


def _show(moved: Move, source: str, written: Path | None) -> None:
    console = Console(highlight=False)
    console.width = min(console.width, _WIDTH_MAX)
    for line, indent in _lines(moved, source, written):
        print_indented(console, line, indent)
    for name, text in moved.files.items() if written is None else ():
        click.echo(f"\n--- {name}\n{text}", nl=False)


def _lines(moved: Move, source: str, written: Path | None) -> Iterator[tuple[Text, int]]:
    other = _SYSTEMS[moved.after.partition(" ")[0]]
    for effect, found in groupby(moved.findings, lambda each: each.effect):
        for objects, alike in groupby(found, lambda each: each.objects):
            yield Text.assemble((effect, _STYLES[effect]), f": {objects}"), 0
            for each in alike:
                yield from _told(each, other)
            yield Text(""), 0
    counts = ", ".join(f"{count} {effect}" for effect, count in moved.counts.items())
    yield Text(f"{source}, from {moved.before} to {moved.after}: {counts or 'there is no queue to move'}.", "bold"), 0
    for system, limit in moved.limits.items():
        yield Text(f"The limit of {_SYSTEMS[system]} lives in {limit}."), 0
    others = [f"'{about.name}' is '{name}'" for about, name in moved.names.items()]
    if others:
        yield Text(f"Other names: {few(others, _NAMES_SHOWN)}."), 0
    for title, said in (("Assumed", moved.assumed), ("Not played", moved.not_played)):
        for sentence in said:
            yield Text(f"{title}: {sentence}."), 0
    if written is not None:
        yield Text(f"Written: {', '.join(str(written / name) for name in moved.files)}."), 0


def _told(each: MoveFinding, other: str) -> Iterator[tuple[Text, int]]:
    aside = "" if each.played else " (not played)"
    if each.effect == "kept" and each.played:
        yield Text(f"{each.what}: {each.before}"), 2
        return
    yield Text(f"{each.what}{aside}"), 2
    if each.before:
        yield Text(f"RabbitMQ: {each.before}"), 4
    yield Text(f"{other}: {each.after}"), 4
    if each.why:
        yield Text(f"why: {each.why}", "dim"), 4
