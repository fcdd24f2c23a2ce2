"""``dlx inspect`` looks into a dead-letter queue: what died, where, why and how often."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from dlx.nearest_names import suggestion
from simulator.cli.command_parts import DataError, count_messages, example, print_json
from simulator.cli.given_queue import EXIT_KILLED, messages_in_file, messages_on_server, queue_options, written_to
from simulator.cli.given_server import server_options, url_first
from simulator.cli.lines import print_without_padding
from simulator.extras import check_installed
from simulator.files import is_url

if TYPE_CHECKING:
    from simulator.cli.given_queue import Looked
    from simulator.redrive.archive import ArchiveOrigin
    from simulator.redrive.groups import MessageGroup
    from simulator.redrive.waiting import WaitingMessage

ROWS_MAX = 10
"""Groups shown of each grouping; ``--json`` has all."""

WIDTH_MAX = 10_000
_PLACE = re.compile(r"#([1-9]\d*)")


@click.command(
    epilog=example(
        "dlx inspect amqp://localhost/%2F orders.dead",
        "dlx inspect http://localhost:15672 orders.dead --vhost shop --header tenant",
        "dlx inspect dead.parquet orders.dead --message order-17 --headers --body",
    )
)
@click.argument("given_source", metavar="SOURCE")
@click.argument("given_queue", metavar="QUEUE", required=False)
@queue_options("SOURCE")
@click.option(
    "--peek",
    "way",
    type=click.Choice(["consume", "management"]),
    help="Read as an AMQP consumer, or through the management API."
    " [default: management for an http URL, otherwise consume]",
)
@click.option("--max", "limit", type=click.IntRange(min=1), metavar="N", help="Read no more than N messages.")
@click.option(
    "--allow",
    "allowed",
    type=click.Choice(["exceeds-limit"]),
    help="Read the queue even if giving a message back may exceed its delivery limit.",
)
@click.option("--header", "headers", multiple=True, metavar="NAME", help="Group by a header, too; repeatable.")
@click.option(
    "--message", "message_id", metavar="ID", help="Show the life of one message, by its id, or by its place: '#1'."
)
@click.option("--headers", "with_headers", is_flag=True, help="With --message: its headers and properties, too.")
@click.option("--body", "with_body", is_flag=True, help="With --message: its body, too; as base64 if it is not text.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write the messages into this Parquet file.",
)
@server_options
@click.option("--json", "as_json", is_flag=True, help="Report as JSON.")
def inspect(
    given_source: str,
    given_queue: str | None,
    vhost: str | None,
    management_url: str | None,
    way: str | None,
    limit: int | None,
    allowed: str | None,
    headers: tuple[str, ...],
    message_id: str | None,
    with_headers: bool,
    with_body: bool,
    out: Path | None,
    as_json: bool,
) -> int:
    """Look into a dead-letter queue: what died there, where it died first, why, and how often.

    SOURCE is the AMQP URL of a running server (amqp://USER@HOST/VHOST), its management URL,
    or a file: what --out wrote, an archive of `dlx redrive --discard`, which needs no QUEUE, or a
    capture or log of the tracing plugin, of which the last delivery of each message from QUEUE is
    shown. Without SOURCE it is the URL in DLX_URL. The command exits with 1 if reading killed a
    message.

    RabbitMQ shows messages only by delivering them. The command reads them and gives them back in
    order, and says what that does to their delivery counts, which depends on the release and the
    queue. It refuses to read a queue where that would kill messages at once.
    """
    check_installed("ops")
    source, queue = url_first(given_source, given_queue)
    if given_queue is None and (origin := _archived(given_source)) is not None:
        source, queue = given_source, origin.archive_of
    if source is None or queue is None:
        file = click.format_filename(given_source)
        why = None if is_url(file) else f"{file} is no archive of dlx redrive --discard"
        raise click.MissingParameter(why, param_hint="'QUEUE'", param_type="argument")
    if message_id is None and (with_headers or with_body):
        raise click.UsageError(f"{'--headers' if with_headers else '--body'} needs --message ID")
    place = _place(message_id)
    if place is not None and out is None:
        limit = place if limit is None else min(limit, place)  # what is behind it stays untouched
    with written_to(out) as writer:
        if "://" not in source:
            path = Path(source)
            given = {"--management-url": management_url, "--peek": way, "--allow": allowed}
            if wrong := [option for option, value in given.items() if value is not None]:
                raise click.UsageError(f"{wrong[0]} is for servers, and {click.format_filename(path)} is a file")
            found = messages_in_file(path, queue, vhost, limit)
        else:
            allows_kills = allowed is not None
            found = messages_on_server(source, queue, management_url, vhost, way, limit, allows_kills=allows_kills)
        if writer is not None:
            found.write(writer)
    status = EXIT_KILLED if found.killed else 0
    if message_id is not None:
        _tell(found, message_id, as_json, with_headers=with_headers, with_body=with_body)
        return status
    from simulator.redrive.groups import all_groups

    groups = all_groups(found.messages, headers=headers)
    if as_json:
        told = {name: [group.as_json() for group in each] for name, each in groups.items()}
        print_json({**found.as_json(), "groups": told})
    else:
        _show(found, groups)
    return status


def _archived(source: str) -> ArchiveOrigin | None:
    """Return where the messages of an archive come from, of which QUEUE may be left out; ``None`` for other sources."""
    from simulator.redrive.archive import origin_of

    return None if "://" in source else origin_of(Path(source))


def _place(message_id: str | None) -> int | None:
    """Return the place of a message that is named by it, counted from the head of the queue; else ``None``."""
    found = _PLACE.fullmatch(message_id or "")
    return None if found is None else int(found[1])


def _tell(found: Looked, message_id: str, as_json: bool, *, with_headers: bool, with_body: bool) -> None:
    """Print the life of each message with that id, or of the one in that place."""
    from simulator.redrive.waiting import life_so_far

    own = [message for message in found.messages if message.id == message_id]
    place = _place(message_id)
    if not own and place is not None:
        own = found.messages[place - 1 : place]
    if not own:
        known = [message.id for message in found.messages]
        problem = f"no message {message_id!r} among the {len(known):,} that were read; {suggestion(message_id, known)}"
        raise DataError(f"{found.where}: {problem}")
    if as_json:
        told = [
            {
                "message": message.id,
                "headers": message.headers,
                "properties": message.properties,
                "life": list(life_so_far(message)),
                **(_body(message) if with_body else {}),
            }
            for message in own
        ]
        print_json({**found.as_json(), "lives": told})
        return
    _show_killed(found)
    for message in own:
        for sentence in life_so_far(message):
            click.echo(sentence)
        if with_headers:
            for title, fields in (("Properties", message.properties), ("Headers", message.headers)):
                click.echo(f"{title}: {msgspec.json.format(msgspec.json.encode(fields), indent=2).decode()}")
        if with_body:
            ((how, body),) = _body(message).items()
            click.echo(f"Body, {len(message.row.payload):,} bytes{' in base64' if how != 'body' else ''}:\n{body}")


def _body(message: WaitingMessage) -> dict[str, str]:
    """Return the body as text, or as base64 where it is none."""
    try:
        return {"body": message.row.payload.decode()}
    except UnicodeDecodeError:
        return {"body_base64": base64.b64encode(message.row.payload).decode()}


def _show(found: Looked, groups: Mapping[str, Sequence[MessageGroup]]) -> None:
    console = Console()
    say = Text.assemble((count_messages(len(found.messages)), "bold"), f" in '{found.queue}' of {found.where}")
    console.print(say, soft_wrap=True)
    _show_killed(found)
    shown: list[list[tuple[str, int]]] = []
    for name, each in groups.items():
        same = [(group.example, group.messages) for group in each]
        if each and same not in shown:  # the same messages under another name
            table = _table(name, each)
            print_without_padding(Console(width=max(console.width, _narrowest(console, table))), table)
            shown.append(same)
    for note in found.notes:
        console.print(Text(f"Looking: {note}.", style="dim"), soft_wrap=True)
    for each_unchecked in found.unchecked:
        console.print(Text(f"Not seen: {each_unchecked}.", style="dim"), soft_wrap=True)


def _show_killed(found: Looked) -> None:
    if found.killed:
        Console().print(Text(found.killed_sentence, style="bold red"), soft_wrap=True)


def _table(name: str, groups: Sequence[MessageGroup]) -> Table:
    table = Table(title=f"By {name}", title_justify="left", box=None, pad_edge=False)
    table.add_column("messages", justify="right")
    for column in (name, "first died"):
        table.add_column(column, overflow="fold")
    table.add_column("example", no_wrap=True)  # people copy ids
    for group in groups[:ROWS_MAX]:
        cells = (group.value, _between(group), group.example)
        table.add_row(f"{group.messages:,}", *map(Text, cells))
    if len(groups) > ROWS_MAX:
        left = sum(group.messages for group in groups[ROWS_MAX:])
        table.add_row(f"{left:,}", Text(f"in {len(groups) - ROWS_MAX:,} more groups (--json has all)"), "", "")
    return table


def _narrowest(console: Console, table: Table) -> int:
    """Return the width below which the table would cut ids off."""
    wide = console.options.update(max_width=WIDTH_MAX)
    return Measurement.get(console, wide, table).minimum


def _between(group: MessageGroup) -> str:
    if group.oldest is None or group.newest is None:
        return ""
    oldest, newest = f"{group.oldest:%Y-%m-%d %H:%M:%S}", f"{group.newest:%Y-%m-%d %H:%M:%S}"
    return oldest if oldest == newest else f"{oldest} to {newest}"
