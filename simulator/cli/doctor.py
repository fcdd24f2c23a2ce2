"""``dlx doctor`` says what a full dead-letter queue holds, how it came to that, and what to run next."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

import click
import msgspec
from rich.console import Console

from dlx.topology import STREAM
from simulator.analysis.findings import few
from simulator.capture.access import usual_api, with_user_of
from simulator.cli.command_parts import DataError, Unavailable, count_messages, example, print_json
from simulator.cli.given_queue import EXIT_KILLED, Looked, exit_codes, look_into, queue_options, server_given
from simulator.cli.given_server import given_again, server_options, url_first
from simulator.cli.progress import progress
from simulator.cli.redrive import say
from simulator.extras import check_installed
from simulator.time_spans import span

if TYPE_CHECKING:
    from simulator.analysis.findings import Finding
    from simulator.redrive.diagnosis import Foreseen, Length, NextStep, QueueConsumer
    from simulator.redrive.groups import MessageGroup
    from simulator.redrive.how_to_peek import Way
    from simulator.redrive.server import QueueOnServer, ServerAddress

ROWS_MAX = 4
"""Groups, findings and fates shown of each kind; ``--json`` has all."""
FINDINGS_MAX = 2
CONSUMERS_MAX = 4
NAMES_MAX = 5
_ASSUMED = (
    "what the server counts, and who is connected, is as it was some seconds ago",
    "consumers of other queues take nothing meanwhile, and no one else publishes there",
)
_DID_NOTHING = "nothing was read, and nothing has changed"
_UNREAD = "what the messages are, and what a redrive would do with them"
_MAY_PUBLISH = "whoever runs the next command may publish where messages go"
_PORT = "at which port AMQP listens, which the server does not show this user: the command takes the usual one"
_OWN_CLIENTS = "consumers of other users, which the server shows to the tags monitoring and administrator"


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a dead-letter queue.

    Attributes:
        queue, vhost, where, release: what was looked at.
        length: how many messages it has.
        looked: the messages that were read; ``None`` where none were.
        groups: of them, by first death.
        sources: the queues that lead here.
        held: how many dead letters wait in these, or in the queue itself, since no queue takes them.
        findings: what lint finds about all of them.
        consumers: of all of them.
        would: what a redrive would do with the messages that were read.
        why_next, next_command: what to do next.
        lint_command: shows the other findings.
        did: what reading did to the queue.
        sees_all: whether the user may see the consumers of others.
        unchecked: what was not looked at.
        assumed: what has to be so for the answer to hold.
    """

    queue: str
    vhost: str
    where: str
    release: str
    length: Length
    looked: Looked | None
    groups: Sequence[MessageGroup]
    sources: Sequence[str]
    held: dict[str, int]
    findings: Sequence[Finding]
    consumers: Sequence[QueueConsumer]
    would: Sequence[Foreseen]
    why_next: str
    next_command: str
    lint_command: str
    did: Sequence[str]
    sees_all: bool
    unchecked: Sequence[str]
    assumed: Sequence[str]

    @property
    def read(self) -> int:
        """How many messages were read."""
        return 0 if self.looked is None else len(self.looked.messages)

    @property
    def oldest(self) -> datetime | None:
        """When the message died first that has been dead for longest, of those that were read."""
        return min((group.oldest for group in self.groups if group.oldest is not None), default=None)

    @property
    def killed_sentence(self) -> str:
        """Say what reading has killed; empty where it was nothing."""
        return self.looked.killed_sentence if self.looked is not None and self.looked.killed else ""

    def as_json(self) -> dict[str, Any]:
        """Return all of it as plain JSON values, without the messages themselves."""
        same = ("queue", "vhost", "where", "release", "read", "did", "sources", "held", "why_next", "next_command",
                "oldest", "lint_command", "sees_all", "unchecked", "assumed")  # fmt: skip
        structs = ("length", "consumers", "would")
        return {
            **{name: getattr(self, name) for name in same},
            **{name: msgspec.to_builtins(getattr(self, name)) for name in structs},
            "groups": [group.as_json() for group in self.groups],
            "findings": [finding.as_json() for finding in self.findings],
            "killed": 0 if self.looked is None else self.looked.killed,
        }


@click.command(
    epilog=example(
        "dlx doctor amqp://localhost/%2F orders.dead",
        "dlx doctor http://localhost:15672 orders.dead --vhost shop",
        "dlx doctor amqp://alice@rabbit/shop orders.dead --ask-password --json",
    )
)
@click.argument("given_url", metavar="URL")
@click.argument("given_queue", metavar="QUEUE", required=False)
@click.option(
    "--sample",
    type=click.IntRange(min=0),
    metavar="N",
    help="Read N messages; 0 reads none. [default: 200; where the delivery limit counts each read, 20 or none]",
)
@queue_options("URL")
@server_options
@click.option("--json", "as_json", is_flag=True, help="Report as JSON.")
def doctor(
    given_url: str,
    given_queue: str | None,
    sample: int | None,
    vhost: str | None,
    management_url: str | None,
    as_json: bool,
) -> int:
    """Say on one screen what a full dead-letter queue holds, how it came to that, and what to run next.

    URL is the AMQP URL of a running server (amqp://USER@HOST/VHOST), or its management URL; without
    it, it is the one in DLX_URL. The answer has the messages by cause, and whether they still come;
    what loses or holds messages on the way here; the consumers that are connected; what a redrive
    would do; the next command; and what was not checked.

    The command moves nothing. It reads the first messages, and gives them back in order, which marks
    them as redelivered. Where the queue's delivery limit counts each read, it reads 20, or none if
    that may kill one; the answer says so. A user with the tag monitoring is enough.
    """
    check_installed("ops")
    url, queue = url_first(given_url, given_queue)
    if url is None or queue is None:
        raise click.MissingParameter(param_hint="'QUEUE'", param_type="argument")
    server = server_given(url, management_url, vhost)
    from simulator.redrive.server import queue_on

    with progress("looking"), exit_codes():
        on_server = queue_on(server, queue)
    commands = _Commands(server, url, queue, vhost, management_url)
    found = _diagnosed(server, on_server, sample, commands)
    if as_json:
        print_json(found.as_json())
    else:
        _show(found)
    return EXIT_KILLED if found.killed_sentence else 0


class _Commands:
    """Writes commands of ``dlx`` about the same queue, without a password in them."""

    def __init__(
        self, server: ServerAddress, url: str, queue: str, vhost: str | None, management_url: str | None
    ) -> None:
        self._server, self._queue, self._vhost = server, queue, vhost
        self._url, access = given_again(url)
        self._management_url: str | None = None
        access_of_api: list[str] = []
        if management_url is not None:
            self._management_url, access_of_api = given_again(management_url)
        self._access = max(access, access_of_api, key=len)

    def about_queue(self, command: str, options: Sequence[str], ports: dict[str, int]) -> str:
        """Return a command with the same URL; ``redrive`` needs one of AMQP, for which ``ports`` has the port."""
        url, api, vhost = self._url, self._management_url, self._vhost
        if command == "redrive" and self._server.amqp_url is None:
            url, api, vhost = self._amqp(ports), api or url, None
        named = {"--vhost": vhost, "--management-url": api}
        again = [part for name, value in named.items() if value is not None for part in (name, value)]
        return shlex.join(["dlx", command, url, self._queue, *options, *again, *self._access])

    def lint(self) -> str:
        """Return the command that lints the virtual host."""
        usual = self._url if self._server.amqp_url is None else usual_api(self._url)
        url = urlsplit(with_user_of(self._management_url or usual, self._url))
        path = f"{url.path.rstrip('/').removesuffix('/api')}/api/definitions/{quote(self._server.vhost, safe='')}"
        return shlex.join(["dlx", "lint", url._replace(path=path).geturl(), *self._access])

    def _amqp(self, ports: dict[str, int]) -> str:
        parts = urlsplit(self._url)
        wanted = "amqps" if parts.scheme == "https" else "amqp"
        scheme = wanted if wanted in ports or not ports else next(iter(ports))
        user, at, _ = parts.netloc.rpartition("@")
        host = f"[{parts.hostname}]" if ":" in str(parts.hostname) else parts.hostname
        port = f":{ports[scheme]}" if scheme in ports else ""
        return f"{scheme}://{user}{at}{host}{port}/{quote(self._server.vhost, safe='')}"


def _diagnosed(server: ServerAddress, on_server: QueueOnServer, sample: int | None, commands: _Commands) -> Diagnosis:
    """Ask the server. Raises ``DataError`` and ``Unavailable``."""
    from simulator.redrive import diagnosis
    from simulator.redrive.groups import all_groups

    queue = on_server.settings.queue.name
    with exit_codes():
        length, consumers = diagnosis.length_of(server, queue), diagnosis.consumers_on(server)
        sees_all = diagnosis.sees_all_clients(server)
        ports = diagnosis.amqp_ports(server)
    looked, why_not = _sampled(server, on_server, sample)
    messages = [] if looked is None else looked.messages
    if looked is not None:  # which is newer than what the server has counted
        length = msgspec.structs.replace(length, ready=len(messages) + looked.unseen)
    sources = diagnosis.leading_to(on_server.flow, queue, messages)
    with progress("linting"), exit_codes():
        findings = diagnosis.findings_on_the_way(on_server, [queue, *sources])
        lengths = diagnosis.lengths_of(server, sources) | {queue: length}
        planned, planner = diagnosis.planned_now(server, on_server, messages)
    then = diagnosis.next_step(planned, planner, length) if looked is not None else why_not
    return Diagnosis(
        queue=queue,
        vhost=server.vhost,
        where=str(server),
        release=on_server.release.name,
        length=length,
        looked=looked,
        groups=all_groups(messages)["first death"],
        sources=sources,
        held={name: each.held for name, each in lengths.items() if each.held},
        findings=findings,
        consumers=[each for each in consumers if each.queue in (queue, *sources)],
        would=diagnosis.together(planned),
        why_next=then.why,
        next_command=commands.about_queue(then.command, then.options, ports) if then.command else "",
        lint_command=commands.lint(),
        did=[note for note in looked.notes if note not in on_server.unseen]
        if looked is not None and messages
        else [why_not.cost] * bool(why_not.cost),
        sees_all=sees_all,
        unchecked=(
            *(looked.unchecked if looked is not None else (_UNREAD,)),
            *(() if sees_all else (_OWN_CLIENTS,)),
            *on_server.unseen,
            *([_PORT] if then.command == "redrive" and server.amqp_url is None and not ports else []),
        ),
        assumed=(*on_server.remarks, *_ASSUMED, *([_MAY_PUBLISH] if then.command == "redrive" else [])),
    )


def _sampled(server: ServerAddress, on_server: QueueOnServer, sample: int | None) -> tuple[Looked | None, NextStep]:
    """Read some messages; return ``None`` and what to do instead where that may kill one, or is refused."""
    from simulator.redrive.diagnosis import SAMPLE, NextStep, counts_reads, sample_of
    from simulator.redrive.how_to_peek import how_to_peek
    from simulator.redrive.peek import UnreadableMessage

    way: Way = "management" if server.amqp_url is None else "consume"
    how = how_to_peek(on_server.settings, way, consumers=on_server.consumers)
    wanted = sample_of(how, on_server.consumers) if sample is None else sample
    if how.mixes:
        return None, NextStep("Nothing was read: the management API would mix the messages; give an AMQP URL.")
    if on_server.settings.queue.type == STREAM:
        return None, NextStep("Nothing was read: it is a stream, which is read as a whole by", "inspect")
    if not wanted and counts_reads(how):
        why = (
            f"Nothing was read: the delivery limit {on_server.settings.delivery_limit} counts each read, and a message"
            " that is near it dies. This reads all the same:"
        )
        return None, NextStep(why, "doctor", ("--sample", str(SAMPLE)))
    if not wanted:
        return None, NextStep("Nothing was read, as asked. This reads the first messages:", "doctor")
    try:
        return look_into(server, on_server, way, wanted), NextStep("")
    except (DataError, Unavailable) as error:
        cost = error.__cause__.cost if isinstance(error.__cause__, UnreadableMessage) else ""
        return None, NextStep(f"Nothing was read; dlx inspect would say the same: {error.message}.", cost=cost)


# What people see


def _show(found: Diagnosis) -> None:
    length = found.length
    in_vhost = "" if found.vhost == "/" else f", virtual host '{found.vhost}'"
    _say(f"{count_messages(length.messages)} in '{found.queue}' of {found.where}{in_vhost}", "bold", indent=0)
    if found.killed_sentence:
        _say(found.killed_sentence, "bold red")
    _say(f"{length.ready:,} ready, {length.unacknowledged:,} unacknowledged, {length.held:,} held; {_growth(length)}.")
    _show_groups(found)
    _show_way(found)
    _show_consumers(found)
    if found.would:
        of = "" if found.read == length.ready else f" with the first {found.read:,}"
        _say(f"What a redrive would do{of}", "bold", indent=0)
        _rows([_fate(each) for each in found.would], [each.messages for each in found.would])
    _say("Next", "bold", indent=0)
    _say(found.why_next)
    if found.next_command:
        say(f"  {found.next_command}")
    told = {"What reading did": found.did or (_DID_NOTHING,), "Not seen": found.unchecked, "Assumed": found.assumed}
    for name, sentences in told.items():
        if sentences:
            _say(f"{name}: {'; '.join(sentences)}.", "dim", indent=0)


def _growth(length: Length) -> str:
    grown = length.growth
    if grown is None:
        return "the server has no record of how it grows"
    over, lately = span(grown.seconds * 1_000_000), span(grown.lately_seconds * 1_000_000)
    if not grown.messages and not grown.lately:
        return f"as many as {over} ago"
    told = f"it {'grew' if grown.messages > 0 else 'shrank'} by {abs(grown.messages):,} in {over}"
    return (
        f"{told}, by {grown.lately:,} in the last {lately}: still growing"
        if length.still_grows
        else (f"{told}, and no longer grows")
    )


def _show_groups(found: Diagnosis) -> None:
    if not found.read:
        return
    which = "All" if found.read == found.length.ready else f"The first {found.read:,}"
    oldest = "" if found.oldest is None else f"; the oldest died first {_ago(found.oldest)}"
    _say(f"{which}, by first death{oldest}:")
    _rows([f"{each.value}{_between(each)}, such as {each.example}" for each in found.groups],
          [each.messages for each in found.groups])  # fmt: skip


def _ago(then: datetime) -> str:
    since = datetime.now(UTC) - then
    return f"{then:%Y-%m-%d %H:%M:%S} UTC, {span(max(0, since.days * 86_400 + since.seconds) * 1_000_000)} ago"


def _between(group: MessageGroup) -> str:
    if group.oldest is None or group.newest is None:
        return ""
    same_day = group.oldest.date() == group.newest.date()
    newest = f"{group.newest:%H:%M:%S}" if same_day else f"{group.newest:%Y-%m-%d %H:%M:%S}"
    return f", {group.oldest:%Y-%m-%d %H:%M:%S} to {newest}"


def _show_way(found: Diagnosis) -> None:
    from simulator.analysis.lint.grouping import groups
    from simulator.lint_reports.formats import heading

    _say(
        f"Lost or held in it, or on the way here from {_named(found.sources) or 'no queue that is known'}",
        "bold",
        indent=0,
    )
    for queue, count in found.held.items():
        letters = "1 dead letter" if count == 1 else f"{count:,} dead letters"
        verb, them = ("is", "it") if count == 1 else ("are", "them")
        _say(f"{letters} of '{queue}' {verb} held in it: no queue has taken {them}", "bold red")
    alike = groups([each for each in found.findings if each.severity != "note"])
    for each in alike[:FINDINGS_MAX]:
        _say(heading(each[0], each).plain, "" if each[0].severity != "error" else "bold red")
        _say(f"fix: {each[0].fix}", indent=4)
    if not alike and not found.held:
        _say("lint finds nothing that loses or holds them")
    others = len(found.findings) - sum(map(len, alike[:FINDINGS_MAX]))
    if others:
        _say(f"{others:,} other finding{'s' if others > 1 else ''} about these queues:")
        say(f"  {found.lint_command}")


def _show_consumers(found: Diagnosis) -> None:
    _say("Consumers", "bold", indent=0)
    for each in found.consumers[:CONSUMERS_MAX]:
        since = "" if each.since is None else f", connected since {each.since:%Y-%m-%d %H:%M} UTC"
        prefetch = f"prefetch {each.prefetch:,}" if each.prefetch else "no prefetch limit"
        _say(f"'{each.queue}': {each.tag} of {each.client}, {prefetch}{since}")
    if len(found.consumers) > CONSUMERS_MAX:
        _say(f"and {len(found.consumers) - CONSUMERS_MAX:,} more (--json has all)")
    consumed = {each.queue for each in found.consumers}
    if without := [name for name in (found.queue, *found.sources) if name not in consumed]:
        _say(f"none {'of' if found.sees_all else 'that this user may see of'} {_named(without)}")


def _named(names: Sequence[str]) -> str:
    return few([f"'{name}'" for name in names], NAMES_MAX)


def _fate(each: Foreseen) -> str:
    where = f" in {_named(each.queues)}" if each.goes and each.queues else ""
    return f"would {'move' if each.goes else 'stay'}: {each.fate}{where}{f'; {each.why}' if each.why else ''}"


def _rows(told: Sequence[str], counts: Sequence[int]) -> None:
    for text, count in list(zip(told, counts, strict=True))[:ROWS_MAX]:
        _say(f"{count:>7,}  {text}", hang=9)
    if len(told) > ROWS_MAX:
        _say(f"{sum(counts[ROWS_MAX:]):>7,}  in {len(told) - ROWS_MAX:,} more groups (--json has all)")


def _say(text: str, style: str = "", *, indent: int = 2, hang: int = 2) -> None:
    """Print a text in lines of the terminal's width, none of which breaks a word."""
    margin = " " * indent
    width = Console().width
    for line in textwrap.wrap(text, width, initial_indent=margin, subsequent_indent=margin + " " * hang,
                              break_long_words=False, break_on_hyphens=False, drop_whitespace=True):  # fmt: skip
        say(line, style)
