"""``dlx serve`` runs a simulated RabbitMQ that forgets everything when it stops."""

from __future__ import annotations

import asyncio
import errno
import gc
import importlib
import signal
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from dlx.releases import DEFAULT
from dlx.server_plugins import PLUGINS, enabled_plugins, named_plugins
from dlx.shovels import host_and_port
from simulator.bootstrap import import_definitions, item_place, start_broker
from simulator.broker import Broker
from simulator.broker.replies import NotImported
from simulator.cli.command_parts import DataError, Unavailable, example, in_use
from simulator.cli.options import DEFINITIONS, OWN_OR_DEFAULT, RELEASE, chosen_release, note_remarks, stand_ins
from simulator.clock import Clock, VirtualClock, WallClock
from simulator.definitions import Definitions, DefinitionsError
from simulator.extras import check_installed, is_installed
from simulator.message_history import RecordingBroker
from simulator.server.listeners import Listeners
from simulator.server.node import MEMORY_LIMIT_BYTES, Node
from simulator.server.tls import Tls, TlsError
from simulator.sources import definitions_from_file

if TYPE_CHECKING:
    from simulator.systems.activemq.settings import BrokerSettings

_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def _size(value: str | int) -> int:
    """Read a number of bytes, such as ``512M``."""
    text = str(value).lower().removesuffix("b").removesuffix("i")
    unit = text[-1:] if text[-1:].isalpha() else ""
    number = text.removesuffix(unit) if unit else text
    if unit not in _UNITS or not number.isdecimal() or int(number) == 0:
        raise click.BadParameter(f"{value} is not a size: write bytes, such as 536870912, 512M or 1G")
    return int(number) * _UNITS[unit]


def _user(value: str | tuple[str, str]) -> tuple[str, str]:
    """Read ``NAME:PASSWORD``."""
    if isinstance(value, tuple):
        return value
    name, colon, password = value.partition(":")
    if not name or not colon:
        raise click.BadParameter(f"{value} is not a user: write NAME:PASSWORD")
    return name, password


def _plugins(value: str | tuple[str, ...]) -> tuple[str, ...]:
    """Read names of plugins, or the file ``enabled_plugins`` that has them."""
    if isinstance(value, tuple):
        return value
    path = Path(value)
    try:
        names = enabled_plugins(path.read_text()) if path.is_file() else value.split(",")
        return tuple(sorted(named_plugins(name.strip() for name in names if name.strip())))
    except (OSError, ValueError) as error:
        where = f"{path}: " if path.is_file() else ""
        raise click.BadParameter(f"{where}{error}") from error


def _peer(value: str) -> str:
    """Read ``HOST:PORT``."""
    host, _, port = value.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) <= 65535 or "/" in host or "@" in host:
        raise click.BadParameter(f"{value} is not a server: write HOST:PORT, such as 127.0.0.1:5673")
    return host_and_port(host.strip("[]"), int(port))


_PORT = click.IntRange(0, 65535)
_PORTS = ("port", "management-port", "metrics-port", "tls-port", "management-tls-port")
_FILE = click.Path(exists=True, dir_okay=False)


# Systems other than RabbitMQ: the module of their HTTP application, and their usual port.
_OTHERS = {"ironmq": ("simulator.systems.ironmq.http", 8080), "zaqar": ("simulator.systems.zaqar.http", 8888)}

# All clients wait while Python looks for garbage among thousands of queues: it seldom looks at what has lived long.
_GC_THRESHOLDS = (700, 10, 1_000)
_OF_ALL = ("host", "port", "clock")
_STOMP_PORT, _ACTIVEMQ_HTTP_PORT = 61613, 8161
_OF_TLS = {
    "tls_cert", "tls_key", "tls_ca", "tls_clients", "tls_login_from", "tls_port", "management_tls_port", "tls_only",
}  # fmt: skip
_ZAQARS = ("redis", "spec", "mongodb", "swift")


@click.command(
    epilog=example(
        "dlx serve --release 4.0 --definitions definitions.json --port 5673", "dlx serve activemq activemq.xml"
    )
)
@click.argument("system", type=click.Choice(["rabbitmq", "activemq", *_OTHERS]), default="rabbitmq")
@click.argument("activemq_xml", metavar="[ACTIVEMQ.XML]", type=click.Path(path_type=Path), required=False)
@click.option(
    "--port",
    type=_PORT,
    default=5672,
    show_default="5672; activemq 61613, ironmq 8080, zaqar 8888",
    help="Port to listen on; 0 picks a free one.",
)
@click.option(
    "--management-port",
    type=_PORT,
    default=15672,
    show_default="15672; activemq 8161",
    help="Port of the management API, or of activemq's page; 0 picks a free one.",
)
@click.option(
    "--metrics-port",
    type=_PORT,
    help="Port of the metrics for Prometheus (RabbitMQ's is 15692); 0 picks a free one. [default: none]",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--release", type=RELEASE, show_default=OWN_OR_DEFAULT, help="RabbitMQ release to simulate.")
@click.option(
    "--definitions",
    type=DEFINITIONS,
    help="Definitions file: the broker starts with all of it, even with what an import would refuse.",
)
@click.option(
    "--strict-import",
    is_flag=True,
    help="Import the definitions as the server would, which refuses what its release does not know.",
)
@click.option(
    "--plugins",
    type=_plugins,
    default=(),
    metavar="NAME,…|FILE",
    help=f"Plugins to enable: {', '.join(PLUGINS)}, or a server's file enabled_plugins."
    " Those that the definitions need are enabled anyway. No released version of the delayed exchange starts on 4.3.",
)
@click.option(
    "--peer",
    "peers",
    type=_peer,
    multiple=True,
    metavar="HOST:PORT",
    help="Another server that shovels may reach, by its AMQP port; repeatable."
    " [default: none: shovels touch no other server]",
)
@click.option(
    "--clock",
    type=click.Choice(["wall", "virtual"]),
    default="wall",
    show_default=True,
    help="Clock of the server. Virtual time stands still until the management API advances it.",
)
@click.option(
    "--user",
    "users",
    type=_user,
    multiple=True,
    metavar="NAME:PASSWORD",
    help="Administrator who may connect from anywhere; repeatable. [default: guest:guest, from this machine only]",
)
@click.option(
    "--memory-limit",
    type=_size,
    metavar="SIZE",
    default=MEMORY_LIMIT_BYTES,
    show_default="1G",
    help="Memory in bytes (or 512M, 1G) that queues may fill before publishers must wait.",
)
@click.option(
    "--profile",
    type=click.Choice(_ZAQARS),
    default=_ZAQARS[0],
    show_default=True,
    help="Storage driver of Zaqar, or spec for its specification.",
)
@click.option(
    "--strict",
    is_flag=True,
    help="Let the answers of ironmq warn of the fields of a request that it ignores. The log always does.",
)
@click.option("--tls-cert", type=_FILE, help="Certificate in PEM format: listen with TLS too (amqps://, https://).")
@click.option("--tls-key", type=_FILE, help="Private key of --tls-cert.")
@click.option("--tls-ca", type=_FILE, help="CA certificates that those of AMQP clients come from.")
@click.option(
    "--tls-clients",
    type=click.Choice(["none", "optional", "required"]),
    default="optional",
    show_default=True,
    help="Whether AMQP clients show a certificate of --tls-ca (verify_none, verify_peer, fail_if_no_peer_cert).",
)
@click.option(
    "--tls-login-from",
    type=click.Choice(["distinguished_name", "common_name"]),
    help="Offer the mechanism EXTERNAL: what of a client's certificate names its user. [default: not offered]",
)
@click.option(
    "--tls-port", type=_PORT, default=5671, show_default=True, help="Port of AMQP with TLS; 0 for a free one."
)
@click.option(
    "--management-tls-port",
    type=_PORT,
    default=15671,
    show_default=True,
    help="Port of the management API with TLS; 0: a free one.",
)
@click.option("--tls-only", is_flag=True, help="Listen without TLS for metrics alone.")
@click.pass_context
def serve(
    ctx: click.Context,
    /,
    system: str,
    activemq_xml: Path | None,
    profile: str,
    strict: bool,
    port: int,
    management_port: int,
    metrics_port: int | None,
    host: str,
    release: str | None,
    definitions: Path | None,
    strict_import: bool,
    plugins: tuple[str, ...],
    peers: tuple[str, ...],
    clock: str,
    users: tuple[tuple[str, str], ...],
    memory_limit: int,
    tls_only: bool,
    **tls_options: Any,
) -> None:
    """Run a simulated RabbitMQ for clients of AMQP 0-9-1 and 1.0, with its management API.

    The server prints one line with its URLs when it is ready, and runs until you interrupt
    it. The URL of the management API has a page for browsers, which shows what was lost and
    why. It keeps nothing on disk. Name ironmq or zaqar to simulate that system instead, which
    has one URL, for its HTTP API; or activemq, which speaks STOMP, with a page of its queues.
    """
    time = WallClock() if clock == "wall" else VirtualClock()
    if system == "activemq":
        _refuse_for(ctx, system, (*_OF_ALL, "management_port"), argument="activemq_xml")
        _serve_activemq(ctx, activemq_xml, host, time)
        return
    if system != "rabbitmq":
        _serve_other(ctx, system, host, time, _own_options(system, profile, strict))
        return
    _refuse_foreign(ctx)
    tls = _tls(ctx, tls_only=tls_only, **tls_options)
    if peers and tls_only:
        raise click.UsageError("--peer: shovels reach this server by its port without TLS, so leave out --tls-only")
    try:
        start = partial(start_broker, users=dict(users), plugins=plugins, peers=peers, now_us=time.now_us())
        broker = _broker(start, release, definitions, strict=strict_import)
        _note_plugins(broker)
    except DefinitionsError as error:
        raise DataError(str(error)) from error
    node = Node(RecordingBroker.taking_over(broker), time, memory_limit_bytes=memory_limit)
    if users:
        node.loopback_users = frozenset()
    plain: tuple[int | None, int | None] = (None, None) if tls_only else (port, management_port)
    run_until_stopped(node, host, *plain, metrics_port, tls, ready=_print_urls)


def run_until_stopped(
    node: Node,
    host: str,
    port: int | None,
    management_port: int | None,
    metrics_port: int | None,
    tls: Tls | None = None,
    *,
    ready: Callable[[Listeners], None],
) -> None:
    """Serve a node until SIGTERM or SIGINT; ``ready`` is called when it can be reached.

    Raises ``Unavailable``, and ``DataError`` where certificates cannot be used.
    """
    gc.set_threshold(*_GC_THRESHOLDS)
    try:
        asyncio.run(_serve(node, host, port, management_port, metrics_port, tls, ready))
    except TlsError as error:
        raise DataError(str(error)) from error
    except OSError as error:
        encrypted = (None, None) if tls is None else (tls.port, tls.management_port)
        raise Unavailable(_why_not(error, host, (port, management_port, metrics_port, *encrypted))) from error


def _tls(
    ctx: click.Context,
    tls_only: bool,
    tls_cert: str | None,
    tls_key: str | None,
    tls_ca: str | None,
    tls_clients: Any,
    tls_login_from: Any,
    tls_port: int,
    management_tls_port: int,
) -> Tls | None:
    """Return how the server uses TLS, if it does. Fail with a usage error for an option that needs another."""
    given = {name for name in ctx.params if ctx.get_parameter_source(name) != ParameterSource.DEFAULT}
    asked = [param.opts[0] for param in ctx.command.params if param.name in given & _OF_TLS]
    if not asked:
        return None
    if tls_cert is None or tls_key is None:
        lacking = [option for option in ("--tls-cert", "--tls-key") if option not in asked]
        raise click.UsageError(f"{', '.join(asked)}: this needs {' and '.join(lacking)} as well")
    if tls_ca is None and tls_clients == "required":
        raise click.UsageError("--tls-clients required needs --tls-ca, the CAs that clients' certificates come from")
    if tls_login_from is not None and (tls_ca is None or tls_clients == "none"):
        raise click.UsageError("--tls-login-from needs certificates of clients: --tls-ca, and --tls-clients not none")
    return Tls(
        cert=tls_cert,
        key=tls_key,
        ca=tls_ca,
        clients=tls_clients,
        login_from=tls_login_from,
        port=tls_port,
        management_port=management_tls_port,
    )


def _print_urls(at: Listeners) -> None:
    click.echo(" ".join(at.urls()))


def _broker(start: Callable[..., Broker], given: str | None, definitions: Path | None, *, strict: bool) -> Broker:
    """Start the broker; notes on standard error say which definitions an import would not take.

    Raises ``DefinitionsError``.
    """
    if definitions is None:
        return start(given or DEFAULT)
    read = definitions_from_file(definitions)
    release = chosen_release(read, given)
    broker = start(release, definitions=read, strict_import=strict, not_imported=partial(_note, read))
    if not strict:
        note_remarks(stand_ins(read, broker.release))
    return broker


def take_noting(broker: Broker, definitions: Definitions, now_us: int) -> None:
    """Give a broker all of the definitions; notes on standard error say which an import would not take.

    Raises ``DefinitionsError``.
    """
    import_definitions(broker, definitions, now_us, not_imported=partial(_note, definitions))
    note_remarks(stand_ins(definitions, broker.release))


def _note_plugins(broker: Broker) -> None:
    """Say what is enabled and cannot be on a server of the release."""
    for name in sorted(broker.state.plugins & broker.release.plugins_not_released):
        click.echo(f"note: no released version of {name} starts on {broker.release.name}", err=True)


def _note(read: Definitions, refused: NotImported) -> None:
    where = item_place(read, refused.section, refused.place)
    kept = "the broker has it" if refused.taken == refused.item else "the broker has the rest of it"
    so = kept if refused.taken is not None else "the broker does not have it"
    verb = "an import refuses " if refused.text and read.is_imported else ""
    click.echo(f"note: {verb}{where}: {refused.plain} ({so})", err=True)


def _refuse_foreign(ctx: click.Context) -> None:
    """Fail with a usage error for an option that RabbitMQ does not take."""
    for name in ("profile", "strict"):
        if ctx.get_parameter_source(name) == ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--{name}: rabbitmq does not take this; `dlx serve --help` says which systems do")
    if ctx.params["activemq_xml"] is not None:
        raise click.UsageError(f"{ctx.params['activemq_xml']}: rabbitmq takes its file as --definitions FILE")


def _own_options(system: str, profile: str, strict: bool) -> dict[str, Any]:
    """Return the options that only this system has."""
    return {"profile": profile} if system == "zaqar" else {"strict": strict}


def _serve_other(ctx: click.Context, system: str, host: str, clock: Clock, own: dict[str, Any]) -> None:
    """Serve the HTTP API of another system; ``own`` holds the options that only this system has."""
    _refuse_for(ctx, system, (*_OF_ALL, *own))
    module, port = _OTHERS[system]
    port = ctx.params["port"] if _is_given(ctx, "port") else port
    from simulator.server.http_server import run

    try:
        run(importlib.import_module(module).app(clock=clock, **own), host=host, port=port, ready=click.echo)
    except OSError as error:
        raise Unavailable(f"cannot listen on {host} at port {port}: {error.strerror or error}") from error


def _is_given(ctx: click.Context, name: str) -> bool:
    return ctx.get_parameter_source(name) == ParameterSource.COMMANDLINE


def _refuse_for(ctx: click.Context, system: str, options: Sequence[str], *, argument: str | None = None) -> None:
    """Fail with a usage error for what a system does not take, which takes these options and perhaps an argument."""
    foreign = [
        str(ctx.params[param.name]) if isinstance(param, click.Argument) else param.opts[0]
        for param in ctx.command.params
        if param.name is not None and param.name not in ("system", argument, *options) and _is_given(ctx, param.name)
    ]
    if foreign:
        names = [f"--{name.replace('_', '-')}" for name in options]
        raise click.UsageError(
            f"{', '.join(foreign)}: {system} does not take {'these' if foreign[1:] else 'this'}; "
            f"it takes {', '.join(names[:-1])} and {names[-1]}"
        )


# ActiveMQ. Its page needs the extra `server`; STOMP needs no library.


def _serve_activemq(ctx: click.Context, activemq_xml: Path | None, host: str, clock: Clock) -> None:
    """Serve STOMP, and the page of queues where its libraries are installed."""
    settings = _activemq_settings(activemq_xml)
    port = ctx.params["port"] if _is_given(ctx, "port") else _STOMP_PORT
    http_port: int | None = ctx.params["management_port"] if _is_given(ctx, "management_port") else _ACTIVEMQ_HTTP_PORT
    if not (is_installed("starlette") and is_installed("uvicorn")):
        if _is_given(ctx, "management_port"):
            check_installed("server")
        click.echo("note: there is no page of queues without the extra `server`", err=True)
        http_port = None
    for each in settings.not_simulated:
        click.echo(f"note: {each}", err=True)
    try:
        asyncio.run(_serve_stomp(settings, clock, host, port, http_port))
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            why = in_use({"--port": port, "--management-port": http_port})
        else:
            why = error.strerror or str(error)
        raise Unavailable(f"cannot listen on {host}: {why}") from error


def _activemq_settings(path: Path | None) -> BrokerSettings:
    """Read an ``activemq.xml``. Raises ``DataError``."""
    from simulator.systems.activemq.settings import BrokerSettings

    if path is None:
        return BrokerSettings()
    from simulator.systems.activemq.activemq_xml import ConfigurationError, broker_settings

    try:
        return broker_settings(path.read_bytes())
    except ConfigurationError as error:
        raise DataError(f"{path}: {error}") from error
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}") from error


async def _serve_stomp(settings: BrokerSettings, clock: Clock, host: str, port: int, http_port: int | None) -> None:
    from simulator.systems.activemq.stomp_server import StompServer

    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    server = StompServer(settings, clock)
    url = await server.listen(host, port)
    try:
        if http_port is None:
            click.echo(url)
            await stop.wait()
            return
        from simulator.server.http_server import serve as serve_http
        from simulator.systems.activemq.http import app

        await serve_http(
            app(server), host=host, port=http_port, ready=lambda page: click.echo(f"{url} {page}"), stop=stop
        )
    finally:
        await server.stop()


async def _serve(
    node: Node,
    host: str,
    port: int | None,
    management_port: int | None,
    metrics_port: int | None,
    tls: Tls | None,
    ready: Callable[[Listeners], None],
) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    node.run_in(loop)
    listeners = await Listeners.start(node, host, port, management_port, metrics_port, tls)
    ready(listeners)
    await stop.wait()
    await listeners.stop()


def _why_not(error: OSError, host: str, ports: tuple[int | None, ...]) -> str:
    if error.errno == errno.EADDRINUSE:
        by_option = {f"--{name}": port for name, port in zip(_PORTS, ports, strict=True)}
        return f"cannot listen on {host}: {in_use(by_option)}"
    return f"cannot listen on {host}: {error.strerror or error}"
