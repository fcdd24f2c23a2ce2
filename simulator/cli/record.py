"""``dlx record`` runs an application against a simulated broker, and says what it loses."""

from __future__ import annotations

import asyncio
import errno
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click
from click.core import ParameterSource

from dlx.releases import DEFAULT
from simulator.bootstrap import start_broker
from simulator.capture.capture_errors import CaptureError, CaptureUnavailable
from simulator.cli.command_parts import DataError, FiniteRange, Unavailable, example, in_use, until_interrupted
from simulator.cli.given_server import given_url, server_options
from simulator.cli.lint import FAIL_ON, lint
from simulator.cli.options import DEFINITIONS, OWN_OR_DEFAULT, RELEASE, chosen_release
from simulator.cli.progress import progress
from simulator.clock import Clock, VirtualClock, WallClock
from simulator.definitions import DefinitionsError
from simulator.extras import check_installed
from simulator.record.recording import Recording, RecordingError, check_folder
from simulator.record.seen_clients import counted, messages
from simulator.sources import definitions_from_file

EXIT_CANNOT_RUN = 127  # as shells say it
_SPAN = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|min|h|)")
_SECONDS = {"ms": 0.001, "s": 1, "": 1, "m": 60, "min": 60, "h": 3600}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
PORT = click.IntRange(0, 65535)
_OF_COMMANDS = {"command", "release", "definitions", "clock", "rate", "port", "management_port", "environment"}
_OF_SERVERS = {"vhost", "amqp_url", "enable"}


class TimeSpan(click.ParamType):  # type: ignore[type-arg]  # which takes an argument from click 8.4 on
    """A span such as ``30s``, ``10m`` or ``1.5h``, in seconds; a number alone is seconds."""

    name = "span"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the seconds. Fails with a usage error."""
        if isinstance(value, int | float):
            return float(value)
        found = _SPAN.fullmatch(value.strip())
        if found is None or not float(found[1]):
            self.fail(f"{value!r} is not a span of time: write 30s, 10m or 1h", param, ctx)
        return float(found[1]) * _SECONDS[found[2]]


def _templates(_context: click.Context, _parameter: click.Parameter, given: tuple[str, ...]) -> Mapping[str, str]:
    """Return the variables of ``--env`` and their templates. Fails with a usage error."""
    found: dict[str, str] = {}
    if given:
        from simulator.record.command import check_template  # which loads the server
    for each in given:
        name, equals, template = each.partition("=")
        if not equals or not _NAME.fullmatch(name):
            raise click.BadParameter(f"{each!r}: expected NAME=TEMPLATE, such as BROKER={{amqp_url}}")
        try:
            check_template(template)
        except ValueError as error:
            raise click.BadParameter(f"{name}={error}") from error
        found[name] = template
    return found


@click.command(
    epilog=example(
        "dlx record -- npm test",
        "dlx record --release 3.13 --out before -- celery -A shop worker",
        "dlx record --url http://localhost:15672/ --for 10m",
        "dlx record --env MESSENGER_TRANSPORT_DSN={amqp_url}/orders --for 30s -- php bin/console messenger:consume",
    )
)
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="COMMAND...")
@click.option(
    "--out",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("dlx-recording"),
    show_default=True,
    metavar="DIR",
    help="Folder of the recording; an earlier recording there is replaced.",
)
@click.option("--release", type=RELEASE, show_default=OWN_OR_DEFAULT, help="RabbitMQ release to simulate.")
@click.option("--definitions", type=DEFINITIONS, help="Definitions that the broker starts with.")
@click.option(
    "--clock",
    type=click.Choice(["wall", "virtual"]),
    default="wall",
    show_default=True,
    help="Clock of the broker. Virtual time runs at --rate, and jumps when the management API advances it.",
)
@click.option(
    "--rate",
    type=FiniteRange(min=0),
    metavar="N",
    help="Virtual time runs N times faster than real time. [default: 0, it stands still]",
)
@click.option("--port", type=PORT, default=0, show_default="a free one", help="Port for AMQP, such as 5672.")
@click.option(
    "--management-port",
    type=PORT,
    default=0,
    show_default="a free one",
    help="Port of the management API, such as 15672.",
)
@click.option(
    "--env",
    "environment",
    multiple=True,
    metavar="NAME=TEMPLATE",
    callback=_templates,
    help="Variable for the command, made of {amqp_url}, {management_url}, {host}, {port}, {user}, {password} and "
    "{vhost}; repeatable. [default: AMQP_URL, RABBITMQ_URL, RABBITMQ_HOST and others that applications read]",
)
@click.option("--for", "seconds", type=TimeSpan(), metavar="SPAN", help="End the recording after 30s, 10m or 1h.")
@click.option(
    "--url",
    metavar="URL",
    help="Record a running server in place of a COMMAND: the URL of its management API, http://USER@HOST:15672/.",
)
@click.option("--vhost", metavar="NAME", help="With --url: the virtual host to record. [default: all]")
@click.option("--amqp-url", metavar="URL", help="With --url: where the server takes AMQP. [default: as its API says]")
@click.option(
    "--enable",
    is_flag=True,
    help="With --url: switch tracing on while it records. Without this, nothing on the server is changed.",
)
@server_options
@click.option("--json", "as_json", is_flag=True, help="Print findings as JSON; what the command prints goes to stderr.")
@click.option(
    "--fail-on",
    type=click.Choice(list(FAIL_ON)),
    help="Exit with 1 for such findings, where the command succeeds. [default: the exit code of the command]",
)
@click.pass_context
def record(
    ctx: click.Context,
    command: tuple[str, ...],
    folder: Path,
    release: str | None,
    definitions: Path | None,
    clock: str,
    rate: float | None,
    port: int,
    management_port: int,
    environment: Mapping[str, str],
    seconds: float | None,
    url: str | None,
    vhost: str | None,
    amqp_url: str | None,
    enable: bool,
    as_json: bool,
    fail_on: str | None,
) -> int:
    """Run an application against a simulated RabbitMQ, record what it does, and say what it loses.

    COMMAND runs with the broker's address in the variables that applications read (AMQP_URL, RABBITMQ_URL,
    CLOUDAMQP_URL, CELERY_BROKER_URL, RABBITMQ_HOST, SPRING_RABBITMQ_HOST, ...); write `--` before it. One that has
    the address built in finds the broker with `--port 5672`. The recording ends with the command, with Ctrl-C or
    after --for.

    The folder has definitions.json (all that was ever declared), recording.json (who declared what, what clients
    published and how they settled deliveries, what was refused and lost) and trace.jsonl (for `dlx replay`). It has no
    bodies. The findings are those of `dlx lint FOLDER`. Exit code: that of COMMAND.

    With --url it records a running server instead, as far as its management API, its events and its firehose show what
    clients do, until --for is over or Ctrl-C.
    """
    given = {name for name in ctx.params if ctx.get_parameter_source(name) != ParameterSource.DEFAULT}
    if url is not None:
        _refuse(ctx, given & _OF_COMMANDS, "not with --url, which records a running server")
        recording = _record_server(url, folder, vhost, amqp_url, seconds, enable=enable)
        return _told(ctx, recording, folder, as_json=as_json, fail_on=fail_on)
    _refuse(ctx, given & _OF_SERVERS, "only with --url")
    if not command:
        raise click.UsageError("Missing argument 'COMMAND...', or --url for a running server.")
    if rate is not None and clock != "virtual":
        raise click.UsageError("--rate: only with --clock virtual; wall time runs as it does")
    check_installed("server")
    from simulator.record.command import RecordedCommand

    time: Clock = WallClock() if clock == "wall" else VirtualClock(rate=rate or 0)
    if shutil.which(command[0]) is None:  # before an earlier recording is replaced
        click.echo(f"dlx: cannot run {command[0]}: No such file or directory, or it may not be executed", err=True)
        return EXIT_CANNOT_RUN
    try:
        read = None if definitions is None else definitions_from_file(definitions)
        rules = (release or DEFAULT) if read is None else chosen_release(read, release)
        broker = start_broker(rules, definitions=read, now_us=time.now_us())
        check_folder(folder)
    except (DefinitionsError, RecordingError) as error:
        raise DataError(str(error)) from error

    def announce(fields: Mapping[str, str]) -> None:
        where = f"{fields['host']}:{fields['port']}"
        management = urlsplit(fields["management_url"])
        click.echo(f"dlx: RabbitMQ {rules} at {where}, management at {management.hostname}:{management.port}", err=True)

    def wait() -> None:
        click.echo("dlx: waiting for the command to end; press Ctrl-C again to kill it", err=True)

    application = RecordedCommand(
        command, folder, broker, time, port=port, management_port=management_port, environment=environment,
        seconds=seconds, to_stderr=as_json, on_ready=announce, on_wait=wait,
    )  # fmt: skip
    try:
        recording = asyncio.run(application.record())
    except (CaptureError, RecordingError) as error:
        raise DataError(str(error)) from error
    except (FileNotFoundError, PermissionError) as error:
        if error.filename is None:
            raise Unavailable(_why_not(error, (port, management_port))) from error
        if error.filename != command[0]:
            raise DataError(f"{folder}: {error}") from error
        click.echo(f"dlx: cannot run {command[0]}: {error.strerror}", err=True)
        return EXIT_CANNOT_RUN
    except OSError as error:
        raise Unavailable(_why_not(error, (port, management_port))) from error
    return _told(ctx, recording, folder, as_json=as_json, fail_on=fail_on, cut_off=application.cut_off)


def _refuse(ctx: click.Context, names: set[str], why: str) -> None:
    """Fail with a usage error where any of these parameters is given."""
    given = [param for param in ctx.command.params if param.name in names]
    options = [param.opts[0] if isinstance(param, click.Option) else "COMMAND" for param in given]
    if options:
        raise click.UsageError(f"{', '.join(options)}: {why}")


def _record_server(
    url: str, folder: Path, vhost: str | None, amqp_url: str | None, seconds: float | None, *, enable: bool
) -> Recording:
    """Record a running server. Raises ``DataError`` and ``Unavailable``."""
    check_installed("capture")
    from simulator.record.live import record_server

    if urlsplit(url).scheme not in ("http", "https"):
        raise click.UsageError("--url: expected the management URL of a server: http://USER@HOST:15672/")
    url = given_url(url)
    amqp_url = None if amqp_url is None else given_url(amqp_url, user_of=url)
    try:
        check_folder(folder)
        with until_interrupted() as stopped, progress("recording", "messages") as show:
            return record_server(
                url, folder, seconds=seconds, vhost=vhost, enable=enable, amqp_url=amqp_url, stop=stopped.is_set,
                progress=show,
            )  # fmt: skip
    except CaptureUnavailable as error:
        raise Unavailable(str(error)) from error
    except (RecordingError, CaptureError) as error:
        raise DataError(str(error)) from error
    except OSError as error:
        raise DataError(f"{folder}: {error.strerror or error}") from error


def _told(
    ctx: click.Context, recording: Recording, folder: Path, *, as_json: bool, fail_on: str | None, cut_off: bool = False
) -> int:
    """Print the findings of a recording; return the exit code: that of the command, unless its time was over."""
    click.echo(f"dlx: {_summary(recording)}; the recording is in {folder}", err=True)
    found = ctx.invoke(lint, sources=(folder,), form="json" if as_json else "text", fail_on=fail_on)
    return (0 if cut_off else recording.exit_code) or (found if fail_on else 0)


def _summary(recording: Recording) -> str:
    published, connections = messages(recording), len(recording.connections)
    did = f"{counted(published, 'message')} published, {counted(connections, 'connection')}"
    return did if recording.exit_code is None else f"the command ended with {recording.exit_code}: {did}"


def _why_not(error: OSError, ports: tuple[int, int]) -> str:
    if error.errno == errno.EADDRINUSE:
        return in_use(dict(zip(("--port", "--management-port"), ports, strict=True)))
    return str(error)
