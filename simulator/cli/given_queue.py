"""The messages of a queue that a command is asked about: of a running server, or of a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click
import msgspec

from dlx.nearest_names import suggestion
from simulator.capture import CaptureError, CaptureUnavailable
from simulator.capture.access import hidden
from simulator.cli.command_parts import DataError, Function, Unavailable, count_messages
from simulator.cli.given_server import given_url
from simulator.cli.progress import progress
from simulator.definitions import DefinitionsError

if TYPE_CHECKING:
    from simulator.capture.parquet import CaptureWriter
    from simulator.redrive.how_to_peek import PeekPlan, Way
    from simulator.redrive.server import QueueOnServer, ServerAddress
    from simulator.redrive.waiting import WaitingMessage

EXIT_KILLED = 1
"""Reading killed a message, or may have."""
_HELD = "messages that consumers hold, and messages that came after the reading began"
_AGAIN = "deaths before a client published a message again without its headers"
_LATER = "what happened to the messages after their last delivery in the file"


def queue_options(url: str) -> Callable[[Function], Function]:
    """Return a decorator that gives a command the options beside its argument ``url``, a running server's."""
    server = (
        click.option("--vhost", metavar="NAME", help="Virtual host of the queue. [default: the one in the URL, or /]"),
        click.option(
            "--management-url",
            metavar="URL",
            help=f"Management API; if it names no user, with the user of {url}."
            f" [default: port 15672 of the host in {url}]",
        ),
    )

    def decorate(command: Function) -> Function:
        for option in reversed(server):
            command = option(command)
        return command

    return decorate


class Looked(msgspec.Struct, frozen=True, kw_only=True):
    """The messages of a queue, from its head on.

    Attributes:
        queue, vhost, where: what was looked at; ``where`` names a server without its password, or a file.
        release: of the server, by its rules.
        messages: what was read.
        unseen: how many messages were ready and were not read.
        killed: how many died by being given back.
        killed_ids: their ids.
        killed_surely: whether the counts that say so are of this queue.
        notes: what the look did to the queue, in sentences.
        unchecked: what it cannot show.
    """

    queue: str
    vhost: str | None
    where: str
    messages: list[WaitingMessage]
    release: str | None = None
    unseen: int = 0
    killed: int = 0
    killed_ids: tuple[str, ...] = ()
    killed_surely: bool = True
    notes: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()

    @property
    def killed_sentence(self) -> str:
        """Say what the look has killed."""
        which = f"'{self.killed_ids[0]}'" if self.killed_ids and self.killed == 1 else f"{self.killed:,} messages"
        if self.killed_surely:
            return f"Reading killed {which}: giving it back exceeded the delivery limit."
        unless = "unless the count that was shown is of the queue where it died before"
        return f"Reading may have killed {which}: giving it back exceeded the delivery limit, {unless}."

    def as_json(self) -> dict[str, Any]:
        """Return all but the messages as plain JSON values."""
        fields = ("queue", "vhost", "where", "release", "unseen", "killed", "notes", "unchecked")
        return {"messages": len(self.messages), **{name: getattr(self, name) for name in fields}}

    def write(self, writer: CaptureWriter) -> None:
        """Write the messages into a Parquet file."""
        from simulator.capture import to_batches

        for batch in to_batches(message.row for message in self.messages):
            writer.write(batch)


@contextmanager
def written_to(out: Path | None) -> Iterator[CaptureWriter | None]:
    """Open the Parquet file, if there is to be one: what keeps it from being written ends the command before a look.

    It has the bodies of messages, so only its owner may read it.

    Raises:
        DataError: it cannot be written.
    """
    if out is None:
        yield None
        return
    from simulator.capture import write_capture

    try:
        with write_capture(out, private=True) as writer:
            yield writer
    except CaptureError as error:
        raise DataError(str(error)) from error


def messages_in_file(path: Path, queue: str, vhost: str | None, limit: int | None) -> Looked:
    """Return the last delivery of each message from the queue, of a capture or a log; or the messages of an archive.

    Raises:
        DataError: the file cannot be read, or has no delivery from the queue.
    """
    from simulator.capture import open_log
    from simulator.redrive.archive import origin_of
    from simulator.redrive.waiting import rows_of, waiting, waiting_in

    name = click.format_filename(path)
    if origin_of(path) is not None:
        return _archived(path, queue, vhost, limit)
    try:
        rows = list(rows_of(open_log(path)))
    except CaptureError as error:
        raise DataError(str(error)) from error
    found = [waiting(row) for row in waiting_in(rows, queue, vhost)]
    if not found:
        known = {row.queue for row in rows if row.queue is not None and vhost in (None, row.vhost)}
        raise DataError(f"{name}: no delivery from a queue {queue!r}; {suggestion(queue, known)}")
    left = found if limit is None else found[:limit]
    unseen = len(found) - len(left)
    return Looked(queue=queue, vhost=vhost, where=name, messages=left, unseen=unseen, unchecked=(_LATER, _AGAIN))


def _archived(path: Path, queue: str, vhost: str | None, limit: int | None) -> Looked:
    """Return the messages that ``dlx redrive --discard`` took out of a queue. Raises ``DataError``."""
    from simulator.redrive.archive import numbers_put_back, waiting_in_archive
    from simulator.redrive.journal import JournalError

    try:
        origin, found = waiting_in_archive(path)
        back, _ = numbers_put_back(path)
    except JournalError as error:
        raise DataError(str(error)) from error
    if queue != origin.archive_of or vhost not in (None, origin.vhost):
        of = f"queue {origin.archive_of!r} of virtual host {origin.vhost!r} at {origin.server}"
        asked = f"{queue!r}" if vhost is None else f"{queue!r} of virtual host {vhost!r}"
        raise DataError(f"{path}: an archive of the {of}, not of {asked}")
    left = found if limit is None else found[:limit]
    put_back = f"{len(back):,} of {count_messages(len(found))} were put back since"
    return Looked(
        queue=queue,
        vhost=origin.vhost,
        where=f"{click.format_filename(path)}, discarded at {origin.server}",
        messages=left,
        unseen=len(found) - len(left),
        notes=(f"{put_back} (dlx redrive --put-back {path} puts the others back)",),
        unchecked=(_AGAIN,),
    )


def messages_on_server(
    url: str,
    queue: str,
    management_url: str | None,
    vhost: str | None,
    way: str | None,
    limit: int | None,
    *,
    allows_kills: bool = False,
) -> Looked:
    """Look into a queue of a running server.

    Raises:
        UsageError: no such URL, or a way of reading that it does not allow.
        DataError: no such queue; or the look would kill its messages.
        Unavailable: the server does not answer, or refuses.
    """
    server = server_given(url, management_url, vhost)
    through = cast("Way", way or ("management" if server.amqp_url is None else "consume"))
    if through == "consume" and server.amqp_url is None:
        raise click.UsageError("--peek consume needs the server's AMQP URL: amqp://USER@HOST/VHOST")
    with exit_codes():
        from simulator.redrive.server import held_on_the_way, queue_on

        on_server = queue_on(server, queue)
        found = look_into(server, on_server, through, limit, allows_kills=allows_kills)
        unchecked = (*held_on_the_way(server, on_server), *found.unchecked)
        return msgspec.structs.replace(found, unchecked=unchecked)


def server_given(url: str, management_url: str | None, vhost: str | None) -> ServerAddress:
    """Return the server of a URL that a command was given. Raises ``UsageError``."""
    from simulator.redrive.server import server_at

    complete = given_url(url)
    api = None if management_url is None else given_url(management_url, user_of=complete)
    try:
        return server_at(complete, api, vhost)
    except ValueError as error:
        raise click.UsageError(f"{hidden(url)}: {error}") from error


def check_consumers(server: ServerAddress, on_server: QueueOnServer) -> None:
    """Refuse a queue whose messages all go to its single active consumer. Raises ``DataError``."""
    queue = on_server.settings.queue
    if on_server.consumers and queue.arguments.get("x-single-active-consumer") is True:
        why = "its single active consumer gets every message, so none would be seen; stop its consumers first"
        raise DataError(f"{server}: {queue.name!r} cannot be consumed: {why}")


def look_into(
    server: ServerAddress, on_server: QueueOnServer, way: Way, limit: int | None, *, allows_kills: bool = False
) -> Looked:
    """Look into a queue whose settings are known.

    Raises:
        DataError: the look would kill its messages, or mix them, or see none.
        Unavailable: the server does not answer, or refuses.
    """
    from simulator.redrive.how_to_peek import how_to_peek, over_limit_from

    if way == "consume":
        check_consumers(server, on_server)
    queue = on_server.settings.queue.name
    brought = bool(over_limit_from(on_server.flow, queue))
    peek = how_to_peek(on_server.settings, way, consumers=on_server.consumers, brought=brought)
    if peek.mixes:
        why = f"the management API of RabbitMQ {peek.release.name} would mix the messages of a quorum queue"
        raise DataError(f"{server}: {queue!r} was not read: {why}; use --peek consume")
    if peek.kills_at_once:
        why = _DEADLY.format(on_server.settings.delivery_limit)
        raise DataError(f"{server}: {queue!r} was not read: {why}")
    if not allows_kills:
        check_brought_counts(server, on_server)
    with exit_codes():
        return _looked(server, peek, limit, on_server.unseen)


def check_brought_counts(server: ServerAddress, on_server: QueueOnServer) -> None:
    """Refuse a queue in which messages may wait that die by being given back. Raises ``DataError``."""
    from simulator.redrive.how_to_peek import how_to_raise, over_limit_from

    settings = on_server.settings
    sources = over_limit_from(on_server.flow, settings.queue.name)
    if not sources:
        return
    named = ", ".join(f"'{name}'" for name in sources)
    raise DataError(
        f"{server}: {settings.queue.name!r} was not read: any message here that died of the delivery limit of {named}"
        f" has more failed deliveries than its own limit {settings.delivery_limit} allows, and would die when it is"
        " given back, however it is read. No server tells beforehand whether there is one;"
        f" {how_to_raise(settings, server.vhost, on_server.policy)}."
        " --allow exceeds-limit reads anyway, and stops at the first that dies"
    )


_DEADLY = (
    "a reader has to give each message back, and the delivery limit {} counts that, so the message dies;"
    " raise the limit with a policy first"
)


_AMQP10_TYPE = "amqp-1.0"  # by this alone a server shows where a message came from
_WHAT_AMQP091_LACKS = (
    "moving them over AMQP 0-9-1 loses what it lacks: subject, to, group sequence and others, and types of values"
)


def _looked(server: ServerAddress, how: PeekPlan, limit: int | None, unseen: tuple[str, ...]) -> Looked:
    from simulator.redrive.how_to_peek import doomed
    from simulator.redrive.peek import peek, peek_by_management
    from simulator.redrive.waiting import waiting

    with progress("reading", "messages", lines=True) as show:
        if how.way == "management" or server.amqp_url is None:
            found = peek_by_management(server.management_url, server.vhost, how, limit=limit)
        else:
            found = peek(
                server.amqp_url,
                server.vhost,
                how,
                limit=limit,
                on_row=lambda rows, of: show(how.settings.queue.name, rows, of),
            )
    messages = [waiting(row) for row in found.rows]
    killed = [message for message in messages if how.kills(message.deaths)]
    notes = [*how.notes, *unseen]
    if dying := doomed(how, (message.deaths for message in messages)) - found.killed:
        notes.append(f"{dying:,} of them die if they are read once more: the delivery limit")
    if by_amqp10 := sum(message.properties.get("type") == _AMQP10_TYPE for message in messages):
        notes.append(f"{by_amqp10:,} came by AMQP 1.0: {_WHAT_AMQP091_LACKS}")
    if found.read_on:
        notes.append(f"{found.read_on:,} more were read and given back, to keep the order")
    if found.behind:
        notes.append("the messages went back behind others that had been returned before and could not be read")
    unchecked = [_HELD, _AGAIN]
    if not found.confirmed:
        unchecked.insert(0, "whether all messages are back: the queue never showed them all")
    if found.unseen:
        unchecked.insert(0, f"{found.unseen:,} of {found.ready:,} messages")
    return Looked(
        queue=how.settings.queue.name,
        vhost=server.vhost,
        where=str(server),
        release=how.release.name,
        messages=messages,
        unseen=found.unseen,
        killed=found.killed,
        killed_ids=tuple(message.id for message in killed),
        killed_surely=not any(how.count_may_be_of_another(message.deaths) for message in killed),
        notes=tuple(notes),
        unchecked=tuple(unchecked),
    )


@contextmanager
def exit_codes() -> Iterator[None]:
    """Turn what a server may answer into errors that end a command."""
    from simulator.redrive.server import NoSuchQueueError

    try:
        yield
    except (NoSuchQueueError, DefinitionsError) as error:
        raise DataError(str(error)) from error
    except CaptureUnavailable as error:
        raise Unavailable(str(error)) from error
