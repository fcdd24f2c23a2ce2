"""``dlx redrive`` brings messages back from a dead-letter queue, after it has said what would become of them."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click
import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from simulator.cli.command_parts import DataError, FiniteRange, example, print_json
from simulator.cli.given_queue import exit_codes, look_into, server_given
from simulator.cli.progress import progress
from simulator.cli.stopping import until_interrupted

if TYPE_CHECKING:
    from simulator.redrive.address import Address, Origin
    from simulator.redrive.bring_back import Pace
    from simulator.redrive.carried import Headers
    from simulator.redrive.execute import Done
    from simulator.redrive.plan import Planned, Wanted
    from simulator.redrive.server import QueueOnServer, Server

EXIT_STAYS = 1
_ASSUMED = (
    "consumers of other queues take nothing meanwhile, and nobody else publishes there",
    "the definitions stay as they are",
)


@click.command(
    epilog=example(
        "dlx redrive amqp://guest:guest@localhost/%2F orders.dead",
        "dlx redrive amqp://guest:guest@localhost/%2F orders.dead --only reason=rejected --canary 5 --execute",
        "dlx redrive amqp://guest:guest@localhost/%2F orders.dead --to orders eu.paid --execute --journal moved.jsonl",
    )
)
@click.argument("url", metavar="URL")
@click.argument("queue", metavar="QUEUE")
@click.argument("key", metavar="[KEY]", required=False)
@click.option(
    "--to",
    default="origin",
    show_default=True,
    metavar="origin|published|EXCHANGE KEY",
    help="The queue of its first death; the exchange and key that it was first published with; or another address.",
)
@click.option("--only", "expressions", multiple=True, metavar="EXPR", help="FIELD=VALUE, != or ~PATTERN; repeatable.")
@click.option(
    "--headers",
    "headers",
    type=click.Choice(["strip", "attempts", "keep"]),
    default="strip",
    show_default=True,
    help="Leave the broker's headers behind; or count the failed attempts in x-failed-attempts; or keep all.",
)
@click.option("--allow", "allowed", multiple=True, metavar="FATE", help="Move messages of that fate, too; repeatable.")
@click.option("--rate", type=FiniteRange(min=0, min_open=True), metavar="N", help="Messages a second, at most.")
@click.option("--max", "limit", type=click.IntRange(min=1), metavar="N", help="Look at no more than N messages.")
@click.option("--canary", type=click.IntRange(min=1), metavar="N", help="Move N first, and see whether they come back.")
@click.option("--execute", is_flag=True, help="Do it. Without this, only say what would become of the messages.")
@click.option(
    "--journal",
    "journal_path",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="What was done, line by line; with the same file a killed run goes on. [default: a new one here]",
)
@click.option("--vhost", metavar="NAME", help="Virtual host of the queue. [default: the one in the URL, or /]")
@click.option("--management-url", metavar="URL", help="Management API. [default: port 15672 of the host in URL]")
@click.option("--json", "as_json", is_flag=True, help="Report as JSON.")
def redrive(
    url: str,
    queue: str,
    key: str | None,
    to: str,
    expressions: tuple[str, ...],
    headers: str,
    allowed: tuple[str, ...],
    rate: float | None,
    limit: int | None,
    canary: int | None,
    execute: bool,
    journal_path: Path | None,
    vhost: str | None,
    management_url: str | None,
    as_json: bool,
) -> int:
    """Bring messages back from a dead-letter queue, without losing one.

    Without --execute this is a dry run: it says for each message where it would go, and what
    would become of it there, by the definitions and the release of the server.

    With --execute a message is published with a confirm, and acknowledged in the dead-letter queue
    only after that. What would be lost, or only come back, stays in the queue, unless --allow names
    its fate. The journal makes it safe to kill the run at any point: the same command with the same
    --journal goes on, and first names the messages that may be there twice.

    Only what is in the queue at the start is moved. The command exits with 1 if messages stay.
    """
    from simulator.redrive.bring_back import Pace  # needs pika, which it should say before it asks any server

    pace = Pace(limit=limit, rate=rate, canary=canary)
    server = server_given(url, management_url, vhost)
    if server.amqp_url is None:
        raise click.UsageError("bringing messages back needs the server's AMQP URL: amqp://USER:PASSWORD@HOST/VHOST")
    wanted = _wanted(to, key, expressions, headers, allowed)
    with exit_codes():
        from simulator.redrive.server import queue_on

        on_server = queue_on(server, queue)
    if not execute:
        return _dry_run(server, on_server, wanted, limit, as_json)
    return _execute(server, on_server, wanted, pace, journal_path or _new_journal(queue), as_json)


def _wanted(to: str, key: str | None, expressions: Sequence[str], headers: str, allowed: Sequence[str]) -> Wanted:
    from simulator.redrive.fate import Kind
    from simulator.redrive.only import ExpressionError, only
    from simulator.redrive.plan import Wanted

    try:
        chosen = only(expressions)
    except ExpressionError as error:
        raise click.BadParameter(str(error), param_hint="'--only'") from error
    kinds = {each.name.lower().replace("_", "-"): each for each in Kind}
    for name in allowed:
        if name not in kinds:
            from simulator.nearest_names import suggestion

            raise click.BadParameter(f"no fate {name!r}; {suggestion(name, kinds)}", param_hint="'--allow'")
    return Wanted(
        to=_address(to, key),
        headers=cast("Headers", headers),
        only=chosen,
        allowed=frozenset(kinds[name] for name in allowed),
    )


def _address(to: str, key: str | None) -> Origin | Address:
    from simulator.redrive.address import Address

    if key is not None:
        return Address(to, key)
    if to not in ("origin", "published"):
        raise click.BadParameter(f"{to!r} needs a routing key behind it: --to EXCHANGE KEY", param_hint="'--to'")
    return cast("Origin", to)


def _dry_run(server: Server, on_server: QueueOnServer, wanted: Wanted, limit: int | None, as_json: bool) -> int:
    from simulator.redrive.plan import Planner

    found = look_into(server, on_server, "consume", limit)
    planner = Planner(on_server.flow, _ready(server), wanted)
    planned = [planner.planned(message) for message in found.messages]
    fates = Counter(each.fate.kind.value for each in planned)
    stays = sum(not each.goes for each in planned)
    if as_json:
        document = {
            "planned": len(planned), "fates": fates, "moved": 0, "refused": {}, "left": len(planned),
            "possible_duplicates": [], "would_stay": stays, "messages": [_told(each) for each in planned],
            "notes": found.notes, "unchecked": found.unchecked, "assumed": _ASSUMED,
        }  # fmt: skip
        print_json(document)
    else:
        _show_plan(planned, found.notes, found.unchecked)
    return EXIT_STAYS if stays else 0


def _told(planned: Planned) -> dict[str, Any]:
    address = planned.address
    return {
        "id": planned.message.id,
        "to": None if address is None else msgspec.to_builtins(address),
        "headers": sorted(planned.headers),
        "fate": planned.fate.kind.value,
        "queues": planned.fate.queues,
        "why": planned.fate.why,
        "goes": planned.goes,
    }


def _ready(server: Server) -> dict[str, int]:
    from simulator.redrive.server import ready_by_queue

    with exit_codes():
        return ready_by_queue(server)


def _show_plan(planned: Sequence[Planned], notes: Sequence[str], unchecked: Sequence[str]) -> None:
    console = Console()
    console.print(Text(f"{len(planned):,} messages; nothing was moved (--execute moves them)", style="bold"))
    table = Table(box=None, pad_edge=False)
    table.add_column("messages", justify="right")
    for column in ("", "fate", "to", "why", "example"):
        table.add_column(column, overflow="fold")
    groups: dict[tuple[str, str, str, bool], list[Planned]] = {}
    for each in planned:
        to = "" if each.address is None else str(each.address)
        groups.setdefault((each.fate.kind.value, to, each.fate.why, each.goes), []).append(each)
    for (kind, to, why, goes), alike in sorted(groups.items(), key=lambda item: (item[0][3], -len(item[1]))):
        cells = ("moves" if goes else "stays", kind, to, why, alike[0].message.id)
        table.add_row(f"{len(alike):,}", *map(Text, cells), style="" if goes else "bold red")
    console.print(table)
    for note in notes:
        console.print(Text(f"Looking: {note}.", style="dim"), soft_wrap=True)
    for each_assumed in _ASSUMED:
        console.print(Text(f"Assumed: {each_assumed}.", style="dim"), soft_wrap=True)
    for missing in unchecked:
        console.print(Text(f"Not seen: {missing}.", style="dim"), soft_wrap=True)


def _new_journal(queue: str) -> Path:
    safe = "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in queue)
    return Path(f"redrive-{safe}-{datetime.now(UTC):%Y%m%d-%H%M%S}.jsonl")


def _execute(server: Server, on_server: QueueOnServer, wanted: Wanted, pace: Pace, path: Path, as_json: bool) -> int:
    from simulator.redrive.bring_back import bring_back
    from simulator.redrive.journal import Journal, JournalError

    try:
        with Journal(path, wanted.asked(str(server), server.vhost, on_server.settings.queue.name)) as journal:
            doubtful = journal.before.uncertain()
            for message_id in doubtful:
                click.echo(f"possible duplicate: {message_id} (sent before, and not confirmed)", err=True)
            with progress("moving") as show, until_interrupted() as interrupted, exit_codes():
                done = bring_back(
                    server,
                    on_server,
                    wanted,
                    journal,
                    pace,
                    asked=_ask if sys.stdin.isatty() else None,
                    on_row=lambda rows, of: show(on_server.settings.queue.name, rows, of),
                    stop=interrupted.is_set,
                )
    except JournalError as error:
        raise DataError(str(error)) from error
    return _report(done, journal.before.confirmed.total(), doubtful, path, as_json)


def _ask(moved: int, arrived: int) -> bool:
    said = f"{moved:,} were moved, and {arrived:,} messages have come into the queue since. Move the rest?"
    return click.confirm(said, default=not arrived, err=True)


def _report(done: Done, before: int, doubtful: Sequence[str], path: Path, as_json: bool) -> int:
    refused = dict(done.refused)
    document = {
        "planned": before + done.looked_at - done.finished,
        "fates": done.fates,
        "moved": before + done.moved - done.finished,
        "refused": refused,
        "left": done.left,
        "possible_duplicates": doubtful,
        "stopped": done.stopped,
        "journal": str(path),
        "assumed": _ASSUMED,
    }
    if as_json:
        print_json(document)
    else:
        console = Console()
        console.print(Text(f"{document['moved']:,} messages moved, {done.left:,} left in the queue", style="bold"))
        for why, count in sorted(refused.items(), key=lambda item: -item[1]):
            console.print(Text(f"{count:,} stay: {why}"), soft_wrap=True)
        if done.stopped:
            console.print(Text(f"Stopped: {done.stopped}. The same command with --journal {path} goes on.", "bold red"))
        for message_id in doubtful:
            console.print(Text(f"Possible duplicate: {message_id}"), soft_wrap=True)
        console.print(Text(f"Journal: {path}", style="dim"), soft_wrap=True)
    return EXIT_STAYS if refused or done.stopped or done.left else 0
