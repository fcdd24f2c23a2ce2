"""``dlx capture`` and ``dlx convert`` write the traces of a broker into one Parquet file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import click
import msgspec

from simulator import capture as captures
from simulator.capture.read import is_log
from simulator.cli.command_parts import DataError, FiniteRange, Unavailable, example, until_interrupted, writing
from simulator.cli.given_server import DEFAULT_URL, given_metrics_url, given_tls, given_url, server_options
from simulator.cli.given_source import GivenSource, Source, read_source
from simulator.cli.options import LOG, note_remarks
from simulator.cli.progress import progress
from simulator.definitions import Definitions, importable
from simulator.definitions.secrets import note_on_secrets, redacted
from simulator.extras import check_installed
from simulator.files import write_whole
from simulator.replay.rows.assumptions import TOLERANCE_MS
from simulator.sources.operator_objects import operator_objects

if TYPE_CHECKING:
    from simulator.capture.live import CaptureReport

_HINT_AFTER_SECONDS = 5
_no_bodies = click.option(
    "--no-bodies",
    is_flag=True,
    help="Write no payload. Everything else is kept, also headers. Messages without message_id keep the hash that tells"
    " them apart.",
)
_REDACTED = (
    "no payload, and a hash in place of message ids, correlation ids, users, client addresses, other properties of text"
    " and the values of headers. Exchanges, queues, routing keys, names of headers, expirations, and what the broker"
    " writes are kept. Routes of headers exchanges, which compare values, are not checked then."
)


class _LogOrSource(click.ParamType):  # type: ignore[type-arg]  # which takes an argument from click 8.4 on
    """A log; with ``--to`` or ``--redact``, a SOURCE."""

    name = "log"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path, or the ``Source``. Fails with a usage error."""
        is_source = ctx is not None and (isinstance(ctx.params.get("form"), str) or ctx.params.get("redact"))
        return (GivenSource() if is_source else LOG).convert(value, param, ctx)


@click.command(
    epilog=example(
        "dlx capture --url amqp://localhost/%2F --management-url http://localhost:15672 --out log.parquet",
    )
)
@click.option(
    "--url",
    required=True,
    envvar=DEFAULT_URL,
    show_envvar=True,
    metavar="AMQP_URL",
    help="URL of the broker: amqp://user:password@host:port/vhost.",
)
@click.option("--vhost", metavar="NAME", help="Virtual host to record. [default: the one in the URL]")
@click.option(
    "--out",
    required=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="Parquet file to write; one that ends with .jsonl gets each row at once as a line, for dlx watch.",
)
@click.option(
    "--pattern",
    default="#",
    show_default=True,
    help="Topic pattern of the traces to record: publish.EXCHANGE, deliver.QUEUE, or # for all.",
)
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Stop after N traces. [default: no limit]")
@click.option("--seconds", type=FiniteRange(min=0), metavar="S", help="Stop after S seconds. [default: no limit]")
@click.option(
    "--idle",
    type=FiniteRange(min=0),
    metavar="S",
    help="Stop when no trace has arrived for S seconds. [default: never]",
)
@click.option("--management-url", metavar="URL", help="Turn tracing on through this management API during the capture.")
@click.option(
    "--metrics-url",
    "metrics_urls",
    multiple=True,
    metavar="URL",
    help="Metrics of a node (http://HOST:15692/metrics) whose counters to keep beside OUT; repeatable: once a node.",
)
@_no_bodies
@click.option("--redact", is_flag=True, help=f"Write {_REDACTED}")
@click.option(
    "--no-probes",
    is_flag=True,
    help="Publish nothing. Otherwise a small message each second to the capture's own queue measures how late rows"
    " arrive.",
)
@server_options
@click.option("--json", "as_json", is_flag=True, help="Report as JSON.")
def capture(
    url: str,
    vhost: str | None,
    out: Path,
    pattern: str,
    limit: int | None,
    seconds: float | None,
    idle: float | None,
    management_url: str | None,
    metrics_urls: tuple[str, ...],
    no_bodies: bool,
    redact: bool,
    no_probes: bool,
    as_json: bool,
) -> None:
    """Record the firehose of a running RabbitMQ into a Parquet file until you press Ctrl-C or a limit is reached.

    Tracing must be on in the virtual host. Turn it on with `rabbitmqctl trace_on -p VHOST`,
    or let --management-url do it. With --metrics-url, the dead letters that RabbitMQ counted
    meanwhile are written beside the file, for `dlx replay --counters`.
    """
    _check_scheme(url, "--url", ("amqp", "amqps"))
    if management_url:
        _check_scheme(management_url, "--management-url", ("http", "https"))
    for metrics_url in metrics_urls:
        _check_scheme(metrics_url, "--metrics-url", ("http", "https"))
    url = given_url(url)
    management_url = None if management_url is None else given_url(management_url, user_of=url)
    metrics_urls = tuple(map(given_metrics_url, metrics_urls))
    check_installed("capture")
    from simulator.capture import firehose, live

    name = vhost if vhost is not None else firehose.vhost_of(url)
    seen = Event()
    hinted = Event()

    def on_idle(idle_seconds: float) -> None:
        if idle_seconds > _HINT_AFTER_SECONDS and not seen.is_set() and not hinted.is_set():
            hinted.set()
            hint = live.nothing_traced(name, switched_on=bool(management_url))
            click.echo(f"virtual host {name}: {hint}", err=True)

    with until_interrupted() as stopped, progress("capturing") as show, _exit_codes():

        def on_row(rows: int) -> None:
            seen.set()
            show(f"capturing {out}", rows)

        report = live.capture(
            url,
            out,
            vhost=vhost,
            pattern=pattern,
            until=firehose.CaptureLimits(rows=limit, seconds=seconds, idle_seconds=idle, stop=stopped.is_set),
            management_url=management_url,
            metrics_urls=metrics_urls,
            tls=given_tls(),
            bodies=not no_bodies,
            redact=redact,
            probes=not no_probes,
            on_row=on_row,
            on_idle=on_idle,
            on_broken=lambda broken: click.echo(f"message {broken.line}: {broken.reason}", err=True),
        )
    if as_json:
        click.echo(msgspec.json.encode({"out": str(out), **msgspec.structs.asdict(report)}).decode())
    else:
        click.echo(f"{report.rows:,} rows in {out}")
        if report.counters:
            click.echo(f"the broker's counters are in {report.counters}")
    if report.late_us is not None and report.late_us > TOLERANCE_MS * 1_000:
        late = f"rows arrived up to {report.late_us / 1e6:.1f} s late, which {out} says, and dlx replay allows for"
        click.echo(f"note: {late}", err=True)
    if report.unmeasured and not report.lost:
        click.echo(f"note: how late rows arrived was not measured to the end: {report.unmeasured}", err=True)
    if report.lost:
        raise Unavailable(f"{report.lost}; {out} holds everything before that{_uncounted(report)}")
    if report.uncounted:
        raise Unavailable(f"{out} is complete{_uncounted(report)}")


@click.command(
    epilog=example(
        "dlx convert trace.log trace-2.log.gz --out log.parquet",
        "dlx convert --redact definitions.json --out shared.json",
        "dlx convert definitions.json --to operator-yaml --out topology.yaml",
    )
)
@click.argument("logs", nargs=-1, required=True, type=_LogOrSource(), metavar="LOG...")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="Parquet file to write; with --to, any.")
@click.option("--json", "as_json", is_flag=True, help="Report as JSON.")
@click.option(
    "--redact",
    is_flag=True,
    is_eager=True,
    help=f"Of logs, write {_REDACTED} Of a SOURCE, as dlx lint takes it, write it without password hashes and"
    " passwords.",
)
@click.option(
    "--to",
    "form",
    type=click.Choice(["definitions", "operator-yaml"]),
    is_eager=True,
    help="LOG is a SOURCE, as dlx lint takes it: write its topology in this form, to OUT or standard output.",
)
@_no_bodies
@server_options
def convert(
    logs: tuple[Any, ...], out: Path | None, as_json: bool, redact: bool, form: str | None, no_bodies: bool
) -> None:
    """Convert logs of RabbitMQ's tracing plugin into one Parquet file.

    LOG is a JSON or text log, plain or gzip-compressed, or a capture in Parquet.
    Records that cannot be read are written as they are to OUT.rejected.jsonl with the reasons, also with --no-bodies;
    with --redact, only where they stand.

    With --redact, LOG is logs, of which OUT has what others may read, or one SOURCE: a definitions file, a file or
    folder that describes a topology, `-` for standard input, or the management URL of a running server. Of a SOURCE,
    OUT has its definitions as JSON, to commit or to share.

    With --to, LOG is one SOURCE: a definitions file, a file or folder that describes a topology, `-` for
    standard input, or the management URL of a running server. A note names what the form cannot express.
    """
    of_logs = redact and form is None and all(isinstance(each, Path) and is_log(each) for each in logs)
    if no_bodies and not of_logs and (redact or form is not None):
        raise click.UsageError(f"--no-bodies: for logs, not with {'--to' if form is not None else '--redact'}")
    if form is not None:
        _convert_topology(logs, form, out, redact)
        return
    if out is None:
        raise click.MissingParameter(param_hint="'--out'", param_type="option")
    if redact and not of_logs:
        _redact(logs, out)
        return
    with progress("converting") as show, _exit_codes():
        report = captures.convert(
            logs,
            out,
            progress=lambda log, rows: show(f"converting {log}", rows),
            bodies=not no_bodies,
            redact=redact,
        )
    if as_json:
        click.echo(msgspec.json.encode({"out": str(out), **msgspec.structs.asdict(report)}).decode())
    else:
        click.echo(f"{report.rows:,} rows in {out}")
    for log in report.files:
        if log.broken or not log.rows:
            found = f"{log.broken:,} records are broken" if log.broken else "it holds no record"
            click.echo(f"{log.file}: {found}, {log.rows:,} rows", err=True)
    if report.rejected_path:
        click.echo(f"{report.rejected_path} holds the broken records and the reasons", err=True)


def _redact(sources: tuple[Source, ...], out: Path) -> None:
    """Write definitions without what others must not read."""
    if len(sources) != 1:
        raise click.UsageError("--redact: expected logs, or one SOURCE")
    definitions = read_source(sources[0])
    note_remarks(definitions.remarks)
    text = msgspec.json.format(msgspec.json.encode(redacted(definitions.document)), indent=2) + b"\n"
    with writing(out):
        write_whole(out, text)
    click.echo(
        f"{out} has no password hashes, no users and passwords in URIs, and no values of keys such as password,"
        " secret and token. Not checked: secrets under other names"
    )


def _convert_topology(sources: tuple[Source, ...], form: str, out: Path | None, redact: bool) -> None:
    """Write the topology of a source in another form."""
    if len(sources) != 1:
        raise click.UsageError("--to: expected one SOURCE")
    definitions = read_source(sources[0])
    remarks = definitions.remarks
    if form == "operator-yaml":
        given = definitions
        if redact:
            vhost = definitions.vhosts[0] if definitions.single_vhost and definitions.vhost_named else None
            given = Definitions(redacted(definitions.document), definitions.source, vhost)
        text, more = operator_objects(given)
        remarks += more
    else:
        document = importable(definitions.document)
        shared = redacted(document) if redact else document
        if secrets := note_on_secrets(shared):
            remarks += (f"{out or 'this'} {secrets}",)
        text = msgspec.json.format(msgspec.json.encode(shared), indent=2).decode() + "\n"
    note_remarks(remarks)
    if out is None:
        click.echo(text, nl=False)
        return
    with writing(out):
        write_whole(out, text.encode())


def _uncounted(report: CaptureReport) -> str:
    return f", but the broker's counters are unknown: {report.uncounted}" if report.uncounted else ""


def _check_scheme(url: str, option: str, schemes: tuple[str, ...]) -> None:
    scheme, separator, _ = url.partition("://")
    if scheme not in schemes:
        expected = f"{schemes[0]}://user:password@host:port"
        found = f"one that begins with '{scheme}://'" if separator else "something else"  # it may hold a password
        raise click.BadParameter(f"expected a URL such as {expected}, got {found}", param_hint=option)


@contextmanager
def _exit_codes() -> Iterator[None]:
    """Turn the errors of the capture package into errors with exit codes."""
    try:
        yield
    except captures.CaptureUnavailable as error:
        raise Unavailable(str(error)) from error
    except captures.CaptureError as error:
        raise DataError(str(error)) from error
