"""``dlx redrive`` brings messages back from a dead-letter queue, after it has said what would become of them."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click
import msgspec
from rich.console import Console
from rich.text import Text

from dlx.deaths import FIRST_DEATH_HEADERS, LAST_DEATH_HEADERS
from dlx.topology import STREAM
from simulator.cli.command_parts import (
    DataError,
    FiniteRange,
    Unavailable,
    count_messages,
    example,
    print_json,
    until_interrupted,
)
from simulator.cli.given_queue import (
    check_brought_counts,
    check_consumers,
    exit_codes,
    look_into,
    queue_options,
    server_given,
)
from simulator.cli.given_server import server_options, url_first
from simulator.cli.progress import progress
from simulator.extras import check_installed

if TYPE_CHECKING:
    from simulator.cli.given_queue import Looked
    from simulator.redrive.archive import Archive, DiscardPlanner
    from simulator.redrive.bring_back import Pace
    from simulator.redrive.journal import RedriveJournal
    from simulator.redrive.plan import Headers, Instead, Planned, RedriveOptions, RedrivePlanner
    from simulator.redrive.server import QueueOnServer, ServerAddress
    from simulator.redrive.waiting import Address, Origin, OwnKeys

EXIT_STAYS = 1
_OF_X_DEATH = frozenset({*FIRST_DEATH_HEADERS, *LAST_DEATH_HEADERS})
"""They repeat what x-death has."""
VALUE_LENGTH_MAX = 20
"""Longer values of headers are not shown to people; ``--json`` has all."""
NAMES_SHOWN_MAX = 12
"""More headers and properties are counted; ``--json`` has all."""
LOSSES_SHOWN_MAX = 4
"""More ways to lose a message later are counted."""
_ASSUMED = (
    "consumers of other queues take nothing meanwhile, and no one else publishes there",
    "the definitions stay as they are",
)


@click.command(
    epilog=example(
        "dlx redrive amqp://localhost/%2F orders.dead",
        "dlx redrive amqp://localhost/%2F orders.dead --only reason=rejected --canary 5 --execute",
        "dlx redrive amqp://localhost/%2F orders.dead --to orders eu.paid --execute --journal moved.jsonl",
    )
)
@click.argument("given_url", metavar="URL")
@click.argument("given_queue", metavar="QUEUE", required=False)
@click.argument("given_key", metavar="[KEY]", required=False)
@click.option(
    "--to",
    default="origin",
    show_default=True,
    metavar="origin|published|EXCHANGE KEY",
    help="The queue of its first death; the exchange and key that it was first published with; or another address.",
)
@click.option(
    "--own-keys",
    is_flag=True,
    help="With --to EXCHANGE and no KEY: each message keeps its routing key; with --headers keep CC, too.",
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
@click.option(
    "--allow", "allowed", multiple=True, metavar="FATE", help="Also move messages with this fate; repeatable."
)
@click.option("--rate", type=FiniteRange(min=0, min_open=True), metavar="N", help="Messages a second, at most.")
@click.option("--max", "limit", type=click.IntRange(min=1), metavar="N", help="Read no more than N messages.")
@click.option("--canary", type=click.IntRange(min=1), metavar="N", help="Move N first, and see whether they come back.")
@click.option(
    "--discard", is_flag=True, help="Take messages out, and keep them in FILE.archive.jsonl (--journal FILE)."
)
@click.option(
    "--put-back",
    "archive",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    metavar="ARCHIVE",
    help="Put messages of such an archive back into QUEUE, at its end.",
)
@click.option("--execute", is_flag=True, help="Move the messages. Without this, only say what would happen to them.")
@click.option(
    "--journal",
    "journal_path",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="File that records each step; with the same file a killed run goes on. [default: a new one here]",
)
@queue_options("URL")
@server_options
@click.option("--json", "as_json", is_flag=True, help="Report as JSON.")
def redrive(
    given_url: str,
    given_queue: str | None,
    given_key: str | None,
    to: str,
    own_keys: bool,
    expressions: tuple[str, ...],
    headers: str,
    allowed: tuple[str, ...],
    rate: float | None,
    limit: int | None,
    canary: int | None,
    discard: bool,
    archive: Path | None,
    execute: bool,
    journal_path: Path | None,
    vhost: str | None,
    management_url: str | None,
    as_json: bool,
) -> int:
    """Bring messages back from a dead-letter queue, without losing one.

    Without --execute this is a dry run: it says for each message where it would go, what would
    happen to it there, and what later deaths would lose it, by the definitions and the release of
    the server.

    With --execute a message is published with a confirm, and acknowledged in the dead-letter queue
    only after that. A message that would be lost, or would only come back, stays in the queue
    unless --allow names its fate. So does one that a later death would lose because its routing key
    has changed (lost-later); the dry run proposes an address that keeps the key. The journal makes
    it safe to kill the run at any point: the same command with the same --journal goes on, and
    first names the messages that may be there twice.

    With --discard messages leave the queue for an archive beside the journal, whole, and --put-back
    brings them back from there.

    Without URL it is the one in DLX_URL. Only what is in the queue at the start is moved. The
    command exits with 1 if messages stay that were to be moved.
    """
    check_installed("ops")
    from simulator.redrive.bring_back import Pace

    pace = Pace(limit=limit, rate=rate, canary=canary)
    url, queue, key = url_first(given_url, given_queue, given_key)
    if url is None or queue is None:
        raise click.MissingParameter(param_hint="'QUEUE'", param_type="argument")
    server = server_given(url, management_url, vhost)
    if server.amqp_url is None:
        raise click.UsageError("bringing messages back needs the server's AMQP URL: amqp://USER@HOST/VHOST")
    _check_options({"--discard": discard, "--put-back": archive is not None}, to, key, own_keys, canary, headers)
    wanted = _wanted(_address(to, key, own_keys=own_keys), expressions, headers, allowed, discard)
    from simulator.redrive.server import queue_on

    with exit_codes():
        on_server = queue_on(server, queue)
    if archive is not None:
        return _put_back(server, on_server, archive, wanted, pace, execute, as_json)
    check_consumers(server, on_server)
    _check_ends(on_server, wanted)
    _check_rights(server, on_server, wanted)
    if not execute:
        return _dry_run(server, on_server, wanted, pace, as_json)
    return _execute(server, on_server, wanted, pace, journal_path or _new_journal(queue), as_json)


def _check_options(
    given: Mapping[str, bool], to: str, key: str | None, own_keys: bool, canary: int | None, headers: str
) -> None:
    """Refuse what says where messages go, or how, beside --discard or --put-back."""
    chosen = [option for option, is_given in given.items() if is_given]
    other = {
        "--to": to != "origin" or key is not None,
        "--own-keys": own_keys,
        "--canary": canary is not None,
        "--headers": headers != "strip",
    }
    for option in [*chosen[1:], *(option for option, is_given in other.items() if is_given)]:
        if chosen:
            raise click.UsageError(f"{chosen[0]} and {option} do not go together")


def _put_back(
    server: ServerAddress,
    on_server: QueueOnServer,
    archive: Path,
    wanted: RedriveOptions,
    pace: Pace,
    execute: bool,
    as_json: bool,
) -> int:
    """Put archived messages back into a queue."""
    from simulator.redrive.archive import as_waiting, numbers_put_back, put_back, read_archive
    from simulator.redrive.journal import JournalError

    queue = on_server.settings.queue.name
    try:
        with exit_codes():
            origin, archived = read_archive(archive)
            before, doubtful = numbers_put_back(archive)
            twice = [each.message for number, each in enumerate(archived, 1) for _ in range(doubtful.count(number))]
            for message_id in twice:
                click.echo(f"possible duplicate: {message_id} (an earlier run may have put it back)", err=True)
            left = [(number, each) for number, each in enumerate(archived, 1) if number not in before]
            chosen = [pair for pair in left if wanted.only(as_waiting(pair[1], queue))][: pace.limit]
            if why_none := _why_none(wanted):
                raise DataError(why_none)
            _check_room(server, on_server, len(chosen))
            _check_rights(server, on_server, wanted)
            done = 0
            if execute:
                with progress("putting back", "messages", lines=True) as show, until_interrupted() as interrupted:
                    done = put_back(
                        server, queue, archive, chosen, lambda rows, of: show(queue, rows, of), interrupted.is_set
                    )
    except JournalError as error:
        raise DataError(str(error)) from error
    if as_json:
        counts = {"archived": len(archived), "put_back_before": len(before), "chosen": len(chosen), "put_back": done}
        rest = {"possible_duplicates": twice, "archive": str(archive), "from": msgspec.to_builtins(origin)}
        print_json({**counts, **rest})
    else:
        was = f"{len(before):,} were put back before" if before else "none was put back before"
        say(f"{count_messages(len(archived))} from '{origin.archive_of}' of {origin.server} in {archive}; {was}")
        would = f"{len(chosen):,} would be put at the end of '{queue}' (--execute puts them there)"
        say(f"{count_messages(done)} put at the end of '{queue}'" if execute else would, "bold")
    return EXIT_STAYS if execute and done < len(chosen) else 0


def _check_room(server: ServerAddress, on_server: QueueOnServer, count: int) -> None:
    """Refuse what does not fit into the queue: it would push others out, or be refused. Raises ``DataError``."""
    from simulator.redrive.server import ready_in

    limit, queue = on_server.settings.max_length, on_server.settings.queue.name
    if limit is not None and ready_in(server, queue) + count > limit:
        raise DataError(
            f"'{queue}' holds {count_messages(limit)} at most, and has no room for {count:,} more: see --max"
        )


def _wanted(
    to: Origin | Address | OwnKeys, expressions: Sequence[str], headers: str, allowed: Sequence[str], discard: bool
) -> RedriveOptions:
    from simulator.redrive.groups import ExpressionError, Selection
    from simulator.redrive.plan import RedriveOptions
    from simulator.redrive.prediction import ALLOWABLE

    try:
        chosen = Selection(expressions)
    except ExpressionError as error:
        raise click.BadParameter(str(error), param_hint="'--only'") from error
    for name in allowed:
        if name not in ALLOWABLE:
            from dlx.nearest_names import suggestion

            raise click.BadParameter(
                f"no fate {name!r} to allow; {suggestion(name, ALLOWABLE)}", param_hint="'--allow'"
            )
    return RedriveOptions(
        to=to,
        headers=cast("Headers", headers),
        only=chosen,
        allowed=frozenset(ALLOWABLE[name] for name in allowed),
        discards=discard,
    )


def _address(to: str, key: str | None, *, own_keys: bool) -> Origin | Address | OwnKeys:
    from simulator.redrive.waiting import Address, OwnKeys

    if own_keys:
        if key is not None or to in ("", "origin", "published"):
            raise click.BadParameter("needs --to EXCHANGE, and no routing key after it", param_hint="'--own-keys'")
        return OwnKeys(to)
    if key is not None:
        return Address(to, key)
    if to not in ("origin", "published"):
        raise click.BadParameter(
            f"{to!r} needs a routing key after it: --to EXCHANGE KEY, or --own-keys", param_hint="'--to'"
        )
    return cast("Origin", to)


def _check_ends(on_server: QueueOnServer, wanted: RedriveOptions) -> None:
    """Refuse a stream, which nothing can be taken out of, and a redrive of a queue into itself."""
    from simulator.redrive.waiting import Address

    queue = on_server.settings.queue
    if queue.type == STREAM:
        raise DataError(f"'{queue.name}' is a stream: nothing can be taken out of it, so nothing can be moved")
    if wanted.to == Address("", queue.name) and not wanted.discards:
        raise DataError(f"'{queue.name}' would be moved into itself: give another address with --to")


def _check_rights(server: ServerAddress, on_server: QueueOnServer, wanted: RedriveOptions) -> None:
    """Refuse, before a message is touched, an exchange that all messages go to and the user may not publish to."""
    from simulator.redrive.prediction import Kind
    from simulator.redrive.server import why_no_publish

    if wanted.discards or wanted.to == "published" or Kind.REFUSED_PUBLISH in wanted.allowed:
        return
    name = "" if wanted.to == "origin" else wanted.to.exchange
    exchange = on_server.flow.topology.exchanges.get(name)
    if exchange is None or exchange.internal:
        return
    with exit_codes():
        if why := why_no_publish(server, name):
            raise Unavailable(f"{server}: no message was read or moved: {why}")


def _dry_run(server: ServerAddress, on_server: QueueOnServer, wanted: RedriveOptions, pace: Pace, as_json: bool) -> int:
    from simulator.redrive.bring_back import planner_on, would_die
    from simulator.redrive.prediction import Kind

    allows_kills = Kind.EXCEEDS_LIMIT in wanted.allowed
    with exit_codes():
        planner = planner_on(server, on_server, wanted, pace)  # what it fails of is known before a message is touched
        found = look_into(server, on_server, "consume", pace.limit, allows_kills=allows_kills)
        found = msgspec.structs.replace(found, unchecked=(*found.unchecked, *on_server.shovels))
        planned = [
            planner.planned(message, exceeds_limit=would_die(on_server, message, pace)) for message in found.messages
        ]
    if why_none := _why_none(wanted):
        raise DataError(why_none)
    stays = sum(not each.goes for each in planned)
    asked = sum(not each.goes for each in planned if each.fate.kind != Kind.NOT_SELECTED)
    if as_json:
        document = {
            "planned": len(planned), "fates": Counter(each.fate.kind.value for each in planned), "moved": 0,
            "refused": {}, "left": len(planned) - found.killed, "possible_duplicates": [], "would_stay": stays,
            "messages": [_as_document(each, planner.instead_of(each)) for each in planned], "killed": found.killed,
            "notes": found.notes, "unchecked": found.unchecked, "assumed": _ASSUMED,
        }  # fmt: skip
        print_json(document)
    else:
        _show_plan(planned, planner, found)
    return EXIT_STAYS if asked or found.killed else 0


def _why_none(wanted: RedriveOptions) -> str:
    """Say what there is where --only chose no message."""
    from simulator.redrive.groups import Selection

    return wanted.only.why_none if isinstance(wanted.only, Selection) else ""


def _as_document(planned: Planned, instead: Instead | None) -> dict[str, Any]:
    address, future = planned.address, planned.fate.future
    return {
        "id": planned.message.id,
        "to": None if address is None else msgspec.to_builtins(address),
        "carries": planned.headers,
        "leaves_behind": planned.leaves_behind,
        "fate": planned.fate.kind.value,
        "queues": planned.fate.queues,
        "why": planned.fate.why,
        "safe": planned.fate.is_safe,
        "lost_later": msgspec.to_builtins(future.losses),
        "all_foreseen": future.complete,
        "instead": None if instead is None else msgspec.to_builtins(instead),
        "goes": planned.goes,
    }


def _show_plan(planned: Sequence[Planned], planner: RedrivePlanner | DiscardPlanner, found: Looked) -> None:
    """Show what was planned, similar messages together, first those that stay."""
    from simulator.redrive.prediction import Kind

    does = "discards" if any(each.fate.kind == Kind.DISCARDED for each in planned) else "moves"
    say(f"{count_messages(len(planned))}; nothing was moved (--execute {does} them)", "bold")
    if found.killed:
        say(found.killed_sentence, "bold red")
    groups: dict[tuple[str, str, tuple[str, ...], bool], list[Planned]] = {}
    for each in planned:
        nowhere = "the archive" if each.fate.kind == Kind.DISCARDED else "no address"
        to = nowhere if each.address is None else str(each.address)
        whys = tuple(_whys(each, planner.instead_of(each)))
        groups.setdefault((each.fate.kind.value, to, whys, each.goes), []).append(each)
    for (kind, to, whys, goes), alike in sorted(groups.items(), key=lambda item: (item[0][3], -len(item[1]))):
        verb = "would move" if goes else "would stay"
        say(f"{len(alike):>8,} {verb}  {kind}", "" if goes else "bold red")
        details = [f"to {to}", *whys, f"carrying {_names(each.headers for each in alike)}"]
        details += [f"without {_names(left)}"] if any(left := [each.leaves_behind for each in alike]) else []
        for detail in (*details, f"such as {alike[0].message.id}"):
            say(f"{'':>8} {detail}")
    for note in found.notes:
        say(f"Looking: {note}.", "dim")
    for each_assumed in _ASSUMED:
        say(f"Assumed: {each_assumed}.", "dim")
    for missing in found.unchecked:
        say(f"Not seen: {missing}.", "dim")


def _whys(planned: Planned, instead: Instead | None) -> Iterator[str]:
    """Yield why that is its fate, what later deaths lose, the worst first, and what to do instead."""
    future = planned.fate.future
    if planned.fate.why:
        yield planned.fate.why
    losses = sorted(future.losses, key=lambda loss: loss.as_before)
    yield from map(str, losses[:LOSSES_SHOWN_MAX])
    if len(losses) > LOSSES_SHOWN_MAX:
        yield f"and on {len(losses) - LOSSES_SHOWN_MAX:,} other ways (--json has all)"
    if not future.complete:
        yield "what else may happen to it was not followed to the end"
    if instead is not None:
        yield str(instead)


def _names(carried: Iterable[Mapping[str, Any]]) -> str:
    """Return the names of headers and properties; with the value where it is short, and the same everywhere."""
    values: dict[str, list[Any]] = {}
    messages = 0
    for each in carried:
        messages += 1
        for name, value in each.items():
            if name in _OF_X_DEATH:
                continue
            values.setdefault(name, []).append(value)
    shown = [_shown(name, seen, messages) for name, seen in sorted(values.items())]
    more = len(shown) - NAMES_SHOWN_MAX
    if more > 0:
        shown[NAMES_SHOWN_MAX:] = [f"and {more:,} more (--json has all)"]
    return ", ".join(shown) or "no headers"


def _shown(name: str, seen: Sequence[Any], messages: int) -> str:
    same = all(value == seen[0] for value in seen) and isinstance(seen[0], str | int) and seen[0] != ""
    shown = f"{name} {seen[0]}" if same and len(str(seen[0])) <= VALUE_LENGTH_MAX else name
    return shown if len(seen) == messages else f"{shown} ({len(seen):,} of them)"


def say(text: str, style: str = "") -> None:
    """Print a line whole, however long it is: people copy ids."""
    Console(highlight=False).print(Text(text, style), soft_wrap=True)


def _new_journal(queue: str) -> Path:
    safe = "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in queue)
    return Path(f"redrive-{safe}-{datetime.now(UTC):%Y%m%d-%H%M%S}.jsonl")


def _execute(
    server: ServerAddress, on_server: QueueOnServer, wanted: RedriveOptions, pace: Pace, path: Path, as_json: bool
) -> int:
    from simulator.redrive.bring_back import WouldDieError, bring_back
    from simulator.redrive.journal import JournalError, RedriveJournal, write_audit

    queue = on_server.settings.queue.name
    try:
        with (
            _removed_if_refused(path),
            RedriveJournal(path, wanted.asked(str(server), server.vhost, queue)) as journal,
            _archive(server, queue, path, wanted) as archive,
        ):
            for sentence in _earlier(journal):
                click.echo(sentence, err=True)
            moved_before = journal.ledger.moved.total()
            for message_id in journal.ledger.doubtful():
                click.echo(f"possible duplicate: {message_id} (an earlier run may have moved it)", err=True)
            with exit_codes():
                _check_limit(server, on_server, wanted, pace)
                write_audit(path)  # if that is impossible, it is known before a message moves
                with progress("moving", "messages", lines=True) as show, until_interrupted() as interrupted:
                    stopped = bring_back(
                        server,
                        on_server,
                        wanted,
                        journal,
                        pace,
                        asked=_ask if sys.stdin.isatty() else None,
                        on_row=lambda rows, of: show(queue, rows, of),
                        stop=interrupted.is_set,
                        archive=archive,
                    )
            status = _report(journal, stopped, write_audit(path), moved_before, pace, as_json)
            if archive is not None:
                click.echo(f"archive: {archive.path}; --put-back {archive.path} puts the messages back", err=True)
        if (why_none := _why_none(wanted)) and not journal.ledger.moved.total():
            raise DataError(why_none)
        return status
    except (JournalError, WouldDieError) as error:
        raise DataError(str(error)) from error


@contextmanager
def _removed_if_refused(journal: Path) -> Iterator[None]:
    """Remove the files that a run has made and that tell nothing, since a check refused it before its first message."""
    from simulator.redrive.archive import archive_path
    from simulator.redrive.journal import audit_path, has_begun

    made = [path for path in (journal, audit_path(journal), archive_path(journal)) if not path.exists()]
    try:
        yield
    finally:
        if journal in made and not has_begun(journal):
            for path in made:
                path.unlink(missing_ok=True)


@contextmanager
def _archive(server: ServerAddress, queue: str, journal: Path, wanted: RedriveOptions) -> Iterator[Archive | None]:
    """Open the archive, where messages are to be discarded."""
    from simulator.redrive.archive import Archive, ArchiveOrigin, archive_path

    if not wanted.discards:
        yield None
        return
    origin = ArchiveOrigin(archive_of=queue, vhost=server.vhost, server=str(server))
    with Archive(archive_path(journal), origin) as archive:
        yield archive


def _check_limit(server: ServerAddress, on_server: QueueOnServer, wanted: RedriveOptions, pace: Pace) -> None:
    from simulator.redrive.bring_back import check_delivery_limit
    from simulator.redrive.prediction import Kind

    if Kind.EXCEEDS_LIMIT in wanted.allowed:
        return
    check_brought_counts(server, on_server)
    with progress("reading delivery counts", "messages", lines=True) as show:
        queue = on_server.settings.queue.name
        check_delivery_limit(server, on_server, pace, on_row=lambda rows, of: show(queue, rows, of))


def _ask(moved: int, arrived: int) -> bool:
    said = f"{moved:,} were moved, and {arrived:,} messages have come into the queue since. Move the rest?"
    return click.confirm(said, default=not arrived, err=True)


def _earlier(journal: RedriveJournal) -> Iterator[str]:
    """Yield what the runs before this one did, where there were any."""
    ledger = journal.ledger
    if ledger.begun is None:
        return
    began = datetime.fromtimestamp(ledger.begun.begun_us / 1e6, UTC)
    who = f"the last run began {began:%Y-%m-%d %H:%M:%S} UTC, by {ledger.begun.by}"
    moved = ledger.moved.total()
    yield f"going on with {journal.path}: {who}; {moved:,} of {ledger.at_start or 0:,} messages were moved before"
    for why, count in ledger.refused.most_common():
        yield f"{count:,} were left before, and are planned again: {why}"


def _report(journal: RedriveJournal, stopped: str, audit: Path, moved_before: int, pace: Pace, as_json: bool) -> int:
    """Report on the whole redrive: what this run and those before it have done.

    Returns 0 if all that was asked for was done: what --only did not choose, or --max left unread, was not asked for.
    """
    from simulator.redrive.prediction import Kind

    ledger = journal.ledger
    refused, moved = ledger.refused, ledger.moved.total()
    unread = max(0, ledger.left - refused.total())
    stays = refused.total() - refused[Kind.NOT_SELECTED.value] + (unread if pace.limit is None else 0)
    if as_json:
        document = {
            "planned": ledger.fates.total(), "fates": ledger.fates, "moved": moved, "moved_before": moved_before,
            "refused": refused, "left": ledger.left, "possible_duplicates": ledger.possible_duplicates,
            "stopped": stopped, "journal": str(journal.path), "audit": str(audit), "assumed": _ASSUMED,
        }  # fmt: skip
        print_json(document)
    else:
        before = f" ({moved_before:,} of them by earlier runs)" if moved_before else ""
        say(f"{count_messages(moved)} moved{before}, {ledger.left:,} left in the queue", "bold")
        for why, count in refused.most_common():
            say(f"{count:,} left: {why}")
        if stopped:
            say(f"Stopped: {stopped}. The same command with --journal {journal.path} goes on.", "bold red")
        for message_id in ledger.possible_duplicates:
            say(f"Possible duplicate: {message_id}")
        say(f"Journal: {journal.path}; what happened to each message: {audit}", "dim")
    return EXIT_STAYS if stays or stopped else 0
