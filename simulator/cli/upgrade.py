"""``dlx upgrade`` says what an upgrade of RabbitMQ changes for a topology, and with a log for its traffic."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec
from rich.console import Console
from rich.text import Text

from dlx.releases import release
from simulator.analysis.upgrade.questions import FoundChange
from simulator.analysis.upgrade.report import UpgradeReport, upgraded
from simulator.cli.command_parts import DataError, example
from simulator.cli.given_source import Source, named, read_recording_of, read_source, source_argument
from simulator.cli.lines import print_indented
from simulator.cli.options import LOG, RELEASE, chosen_release
from simulator.definitions import DefinitionsError
from simulator.definitions.checks import own_release

if TYPE_CHECKING:
    from simulator.capture.traffic import LogTraffic
    from simulator.record.recording import Recording

EXIT_CHANGES = 1
_STYLES = {"error": "bold red", "warning": "bold yellow", "note": "bold blue"}
_WIDTH_MAX = 110
_NO_LOG = "what the traffic meets: with --log, changes that no message of the log can meet are left out"


@click.command(
    epilog=example(
        "dlx upgrade definitions.json --from 3.13 --to 4.3",
        "dlx upgrade http://localhost:15672/ --from 3.10 --to 4.3 --log capture.parquet",
    )
)
@source_argument
@click.option(
    "--from",
    "before",
    type=RELEASE,
    help="RabbitMQ release of the server. [default: that of the server which exported the definitions]",
)
@click.option("--to", "after", type=RELEASE, required=True, help="Release to upgrade to.")
@click.option(
    "--log",
    "logs",
    multiple=True,
    type=LOG,
    metavar="LOG",
    help="A capture, or a log of the tracing plugin, of today's traffic; repeatable. Leaves out what it cannot meet.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def upgrade(
    source: Source, over: Source | None, before: str | None, after: str, logs: tuple[Path, ...], as_json: bool
) -> int:
    """Say what an upgrade changes for a topology, for which object, and what to do about it.

    SOURCE is a definitions file (`rabbitmqctl export_definitions`, GET /api/definitions), a file or folder of
    YAML or JSON that describes a topology, `-` for standard input, or the management URL of a running server.

    An error: messages will be lost. A warning: they may be lost or come another way, or consumers have to know. A
    note: good to know; what becomes of messages stays as it is. A safe fix can be made on the live server before the
    upgrade and loses nothing. Exit code 0: nothing, or notes alone; 1: errors or warnings.
    """
    definitions = read_source(source, over)
    if before is None and own_release(definitions) is None:
        raise click.UsageError(
            f"{definitions.source} does not say which server exported it; name its release by --from"
        )
    before = chosen_release(definitions, before)
    try:
        report = upgraded(definitions, release(before), release(after))
    except DefinitionsError as error:
        raise DataError(str(error)) from error
    answer = _Answer(report, named(source), _traffic(logs), read_recording_of(source))
    if as_json:
        click.echo(msgspec.json.encode(answer.as_json()).decode())
    else:
        console = Console(highlight=False)
        console.width = min(console.width, _WIDTH_MAX)
        for line, indent in answer.lines():
            print_indented(console, line, indent)
    return EXIT_CHANGES if any(each.change.severity != "note" for each in answer.changes) else 0


def _traffic(logs: tuple[Path, ...]) -> LogTraffic | None:
    """Return what the logs show. Raises ``DataError`` for one that cannot be read."""
    if not logs:
        return None
    from simulator.capture import CaptureError
    from simulator.capture.traffic import read_traffic

    try:
        return read_traffic(logs)
    except CaptureError as error:
        raise DataError(str(error)) from error


class _Answer:
    """The changes that concern this topology, and with a log those that its messages can meet, each with how many."""

    def __init__(
        self, report: UpgradeReport, source: str, traffic: LogTraffic | None, recording: Recording | None
    ) -> None:
        self.report, self.source, self.traffic, self.recording = report, source, traffic, recording
        self.messages: dict[int, int] = {}
        self.changes, self.left_out = list(report.changes), list[FoundChange]()
        if traffic is not None:
            for each in report.changes:
                meets = each.change.traffic
                self.messages[id(each)] = traffic.messages(meets.kind, meets.vhost, meets.queues)
            self.changes = [each for each in report.changes if self.messages[id(each)]]
            self.left_out = [each for each in report.changes if not self.messages[id(each)]]

    def seen(self, each: FoundChange) -> str:
        """Say what the recording has of the messages that can meet a change; empty without one."""
        if self.recording is None:
            return ""
        from simulator.record.seen_clients import seen_of

        return seen_of(each.change.traffic, self.recording)

    @property
    def recorded(self) -> str:
        """The sentence about the recording; empty without one."""
        if self.recording is None:
            return ""
        from simulator.record.facts import taken_from

        return taken_from(self.recording, self.source)

    @property
    def unchecked(self) -> tuple[str, ...]:
        if self.traffic is None:
            return (*self.report.unchecked, _NO_LOG)
        return (*self.report.unchecked, *self.traffic.unchecked)

    def as_json(self) -> dict[str, Any]:
        answer = {**self.report.as_json(), "unchecked": self.unchecked}
        answer["changes"] = [self._change(each) for each in self.changes]
        if self.recording is not None:
            answer["recording"] = self.recorded
        if self.traffic is not None:
            answer["log"] = {
                "messages": self.traffic.total,
                "left_out": [each.as_json() for each in self.left_out],
            }
        return answer

    def _change(self, each: FoundChange) -> dict[str, Any]:
        count = {} if self.traffic is None else {"messages": self.messages[id(each)]}
        seen = {"seen": said} if (said := self.seen(each)) else {}
        return {**each.as_json(), **count, **seen}

    def lines(self) -> Iterator[tuple[Text, int]]:
        """Yield the lines for people, each with its indent."""
        for severity, found in groupby(self.changes, lambda each: each.change.severity):
            for about, changes in groupby(found, lambda each: each.change.about):
                name = str(about) if about.kind != "vhost" else f"virtual host '{about.name}'"
                yield Text.assemble((severity, _STYLES[severity]), f": {name}"), 0
                for each in changes:
                    yield from self._told(each)
                yield Text(""), 0
        yield Text(self._summary(), "bold"), 0
        if self.left_out:
            names = ", ".join(dict.fromkeys(each.behaviour for each in self.left_out))
            yield (
                Text(f"Left out, since no message of the log can meet them: {len(self.left_out)} changes ({names})."),
                0,
            )
        for title, said in (("Assumed", self.report.assumed), ("Not checked", self.unchecked)):
            for each_said in said:
                yield Text(f"{title}: {each_said}."), 0
        if self.recorded:
            yield Text(self.recorded), 0

    def _told(self, each: FoundChange) -> Iterator[tuple[Text, int]]:
        yield Text(each.change.message), 2
        if self.traffic is not None:
            count = self.messages[id(each)]
            yield Text(f"in the log: {count:,} {'message' if count == 1 else 'messages'}"), 4
        if seen := self.seen(each):
            yield Text(f"seen: {seen}"), 4
        safe = "" if each.change.fix.safe else " (not safe on the live server)"
        yield Text(f"fix{safe}: {each.change.fix.text}", "green"), 4
        yield Text(f"{each.behaviour}, {each.evidence}", "dim"), 4

    def _summary(self) -> str:
        counts = Counter(each.change.severity for each in self.changes)
        found = ", ".join(f"{count} {name}{'' if count == 1 else 's'}" for name, count in counts.items())
        way = f"from {self.report.before} to {self.report.after}"
        return f"{self.source}, {way}: {found or 'nothing changes that dlx knows of'}."
