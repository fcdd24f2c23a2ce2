"""``dlx watch`` replays a log while it grows."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, BinaryIO

import click
import msgspec

from simulator.cli.command_parts import DataError, FiniteRange, Unavailable, example, until_interrupted, writing
from simulator.cli.given_logs import definitions_option, read_noted
from simulator.cli.given_server import server_options
from simulator.cli.given_source import Source
from simulator.cli.options import LOG, otlp_option, release_option
from simulator.extras import check_installed
from simulator.replay.rows.assumptions import TOLERANCE_MS, Assumptions

if TYPE_CHECKING:
    from simulator.replay.watch.status import Status
    from simulator.replay.watch.watcher import Watcher

EXIT_FINDINGS = 1
POLL_SECONDS = 0.2
PATHS_SHOWN = 20
TRACED_AGAIN = "a watch that goes on would write the traces of the same messages again"
ANEW = "the previous watch had other options, and ended before a queue of its definitions was in the log"


@click.command(
    epilog=example(
        "dlx watch log.jsonl --definitions definitions.json --release 4.3 --state watched",
    )
)
@click.argument("sources", nargs=-1, required=True, type=LOG, metavar="SOURCE...")
@definitions_option()
@release_option("RabbitMQ release whose rules make the predictions.")
@click.option(
    "--state",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Directory for verdicts.jsonl and the position: a watch that was killed goes on from there."
    " [default: keep nothing]",
)
@click.option(
    "--settle",
    "settle_s",
    type=FiniteRange(min=0),
    default=2,
    show_default=True,
    metavar="S",
    help="A verdict is final S seconds after its row was read.",
)
@click.option(
    "--stuck-after",
    "stuck_after_s",
    type=FiniteRange(min=0),
    default=60,
    show_default=True,
    metavar="S",
    help="A message is stuck if no consumer takes it from its queue for S seconds.",
)
@click.option(
    "--forget-after",
    "forget_after_s",
    type=FiniteRange(min=0),
    default=3600,
    show_default=True,
    metavar="S",
    help="Forget a message that waits in no queue S seconds after its last row; if it comes back, its rows are read"
    " again from the log.",
)
@click.option(
    "--open-max",
    type=click.IntRange(min=1),
    default=1_000_000,
    show_default=True,
    metavar="N",
    help="If more than N messages are not finished, forget sooner, down to a minute; stop if that is not enough.",
)
@click.option(
    "--tolerance-ms",
    type=FiniteRange(min=0),
    default=TOLERANCE_MS,
    show_default=True,
    help="As for dlx replay.",
)
@otlp_option("the life of each message")
@click.option("--once", is_flag=True, help="Stop at the current end of the log; all verdicts are final then.")
@click.option(
    "--until-idle",
    "idle_s",
    type=FiniteRange(min=0),
    metavar="S",
    help="Stop when nothing was added for S seconds; all verdicts are final then. [default: never]",
)
@click.option(
    "--prometheus",
    "port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="Serve http://127.0.0.1:PORT/metrics meanwhile; 0 takes a free port and prints it.",
)
@click.option("--json", "as_json", is_flag=True, help="Print each verdict that is final as a line of JSON.")
@server_options
def watch(
    sources: tuple[Path, ...],
    given_definitions: Source,
    rules: str | None,
    folder: Path | None,
    settle_s: float,
    stuck_after_s: float,
    forget_after_s: float,
    open_max: int,
    tolerance_ms: float,
    otlp: Path | None,
    once: bool,
    idle_s: float | None,
    port: int | None,
    as_json: bool,
) -> None:
    """Replay logs while they grow, until you press Ctrl-C.

    SOURCE is a file, or a directory of them: JSON lines of dlx capture, a JSON log of RabbitMQ's tracing plugin, or
    captures in Parquet, which are read once they are whole. It need not be there yet. The command exits with 1 if a
    delivery differs from the prediction or cannot be explained, or if a publish was routed to other queues.
    """
    check_installed("replay")
    if otlp is not None and folder is not None:
        raise click.UsageError(f"--otlp: not with --state; {TRACED_AGAIN}")
    from simulator.capture import CaptureError
    from simulator.definitions import DefinitionsError
    from simulator.replay.results.summary import MatchesNothingError
    from simulator.replay.watch.state import WatchState, asked
    from simulator.replay.watch.watcher import Watcher, WatchOptions

    definitions, rules = read_noted(given_definitions, rules, sources)
    try:
        wish = WatchOptions(
            definitions=definitions,
            rules=rules,
            assumptions=Assumptions(tolerance_ms, False),
            settle_s=settle_s,
            stuck_after_s=stuck_after_s,
            forget_after_s=forget_after_s,
            open_max=open_max,
        )
        _tell_missing(sources, once=once)
        file = given_definitions
        text = file.read_bytes() if isinstance(file, Path) and file.is_file() else definitions.to_json()
        about = asked(text, rules, tolerance_ms)
        with _kept(folder) as place, WatchState(place, about) as state, until_interrupted() as stopped:
            if state.anew:
                click.echo(f"note: {place} starts again: {ANEW}", err=True)
            face = _Face(Watcher(sources, wish, state), as_json=as_json)
            with _served(port, face), _opened(otlp) as face.traces:
                face.run(stopped, once=once, idle_s=idle_s, finish=folder is None)
    except (CaptureError, DefinitionsError, MatchesNothingError) as error:
        raise DataError(str(error)) from error
    if not face.status.explained:
        raise click.exceptions.Exit(EXIT_FINDINGS)


class _Face:
    """Runs a watcher and prints what it says."""

    def __init__(self, watcher: Watcher, *, as_json: bool) -> None:
        self._watcher = watcher
        self._as_json = as_json
        self._shown = ""
        self.traces: BinaryIO | None = None
        self.status: Status = watcher.status(time.time())

    def run(self, stopped: Event, *, once: bool, idle_s: float | None, finish: bool) -> None:
        """Watch until stopped. ``finish``: all verdicts are final then, however it ends."""
        added_s = shown_s = time.time()
        rows = self._watcher.rows
        while not stopped.is_set():
            more = self._step(settled=False)
            now = time.time()
            if self._watcher.rows != rows:
                rows, added_s = self._watcher.rows, now
            if now - shown_s >= 1:
                shown_s = now
                self._show()
            if more:
                continue
            self._watcher.check_match()
            if once or (idle_s is not None and now - added_s >= idle_s):
                finish = True
                break
            stopped.wait(POLL_SECONDS)
        self._watcher.check_match()
        while finish and self._step(settled=True):
            pass
        if self.traces is not None:
            self.traces.writelines(self._watcher.traces_left())
        self._end()

    def _step(self, *, settled: bool) -> bool:
        now = time.time()
        step = self._watcher.step(now, settled=settled)
        for broken in step.broken:
            click.echo(f"broken: {broken.file}:{broken.line}: {broken.reason}", err=True)
        if self.traces is not None and step.forgotten:
            self.traces.writelines(self._watcher.traces(list(step.forgotten)))
            self.traces.flush()
        if self._as_json and step.lines:
            click.echo(b"".join(step.lines), nl=False)
        return step.more

    def _show(self) -> None:
        self.status = self._watcher.status(time.time())
        line = self.status.line()
        if not self._as_json and line != self._shown:
            self._shown = line
            click.echo(line)

    def _end(self) -> None:
        from simulator.replay.results.headline import left_out_remarks, twice_remarks

        self.status = self._watcher.status(time.time())
        for name, size in self._watcher.unfinished.items():
            click.echo(f"note: {name}: {size:,} bytes at the end have no line end, and were left out", err=True)
        for remark in (*twice_remarks(self.status.twice), *left_out_remarks(self.status.left_out)):
            click.echo(f"note: {remark}", err=True)
        if self._as_json:
            click.echo(msgspec.json.encode({"summary": self.status}))
            return
        click.echo(self.status.line())
        for each in self.status.stuck:
            why = f", held: {each.why}" if each.why else ""
            click.echo(f"{each.count:>8,}  stuck in {each.queue} (virtual host {each.vhost}){why}")
        several = len({path.vhost for path in self.status.paths}) > 1
        for path in self.status.paths[:PATHS_SHOWN]:
            where = f" (virtual host {path.vhost})" if several else ""
            way = f"{path.queue} {path.reason} -> {path.exchange or '(default)'} -> {path.to_queue}"
            click.echo(f"{path.count:>8,}  {way}{where}")
        if len(self.status.paths) > PATHS_SHOWN:
            click.echo(f"          and {len(self.status.paths) - PATHS_SHOWN} more ways")


@contextmanager
def _kept(folder: Path | None) -> Iterator[Path]:
    """Yield the folder of the state; without one, a folder that is removed afterwards."""
    if folder is not None:
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="dlx-watch-") as name:
        yield Path(name)


@contextmanager
def _opened(otlp: Path | None) -> Iterator[BinaryIO | None]:
    """Yield the file for the traces, which others may read while it grows. Raises ``DataError``."""
    if otlp is None:
        yield None
        return
    with writing(otlp), otlp.open("wb") as file:
        yield file


@contextmanager
def _served(port: int | None, face: _Face) -> Iterator[None]:
    if port is None:
        yield
        return
    from simulator.replay.watch.status import LOOPBACK, served

    with ExitStack() as stack:
        try:
            taken = stack.enter_context(served(port, lambda: face.status))
        except OSError as error:
            raise Unavailable(f"--prometheus {port}: {error.strerror or error}") from error
        click.echo(f"metrics: http://{LOOPBACK}:{taken}/metrics", err=True)
        yield


def _tell_missing(sources: tuple[Path, ...], *, once: bool) -> None:
    for source in sources:
        if not source.exists():
            if once:
                raise DataError(f"{source}: no such file")
            click.echo(f"note: {source}: not there yet", err=True)
