"""SOURCE: the definitions that a command is asked about, from files, standard input or a running server.

``source_argument`` gives a command the argument SOURCE and the option ``--over``, ``sources_argument`` one or more of
them; ``read_source`` reads one.
"""

from __future__ import annotations

import os
import sys
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import click
import msgspec

from simulator.cli.command_parts import DataError, Function, Unavailable
from simulator.cli.given_server import DEFAULT_URL, given_url, server_options
from simulator.definitions import Definitions, DefinitionsError, parse_definitions
from simulator.definitions.overlay import laid_over
from simulator.files import is_url
from simulator.sources import definitions_from_file, definitions_from_text

if TYPE_CHECKING:
    from simulator.capture.server_definitions import ServerDefinitions
    from simulator.record.recording import Recording


_EXPECTED = "expected the management URL of a server: http://USER@HOST:15672/"
_SERVER_FAILED = 500


class ServerURL(msgspec.Struct, frozen=True):
    """The management API of a running server; ``url`` may hold a password and is not for printing.

    ``vhost`` is the only virtual host that is meant, if one is.
    """

    url: str
    vhost: str | None = None

    def __str__(self) -> str:
        from simulator.capture.management_api import server_of  # imported here: few sources are servers
        from simulator.capture.server_definitions import path_of_definitions

        return f"{server_of(self.url)}/api/{path_of_definitions(self.vhost)}"


class StandardInput:
    """The text piped into the command."""

    @cached_property
    def data(self) -> bytes:
        """The text, which can be read once."""
        return sys.stdin.buffer.read()

    def __str__(self) -> str:
        return "standard input"


Source = Path | StandardInput | ServerURL


def named(source: Source) -> str:
    """Return the source as output names it: a path with all characters that text can hold, a server without user."""
    return click.format_filename(source) if isinstance(source, Path) else str(source)


class _GivenURL(click.ParamType):  # type: ignore[type-arg]  # which takes an argument from click 8.4 on
    name = "url"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the ``ServerURL``. Fails with a usage error that repeats nothing of a URL that has a password."""
        if isinstance(value, ServerURL):
            return value
        problem = _describe_wrong_url(value)
        if problem:
            self.fail(f"{problem}; {_EXPECTED}", param, ctx)
        page = _without_page(value)
        return msgspec.structs.replace(page, url=given_url(page.url))


class GivenSource(click.Path):
    """A path, ``-`` for standard input, or the management URL of a server."""

    def __init__(self) -> None:
        super().__init__(path_type=Path, allow_dash=True)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the ``Source``. Fails with a usage error for a URL that cannot be of a server."""
        if isinstance(value, str) and is_url(value):
            return _GivenURL().convert(value, param, ctx)
        return StandardInput() if value == "-" else super().convert(value, param, ctx)


def source_argument(command: Function, kind: GivenSource | None = None) -> Function:
    """Give the command the argument SOURCE, as ``source``, and the option ``--over``, as ``over``.

    ``kind``: what SOURCE may be, if it is not what every command takes.
    """
    given = kind or GivenSource()
    one = click.argument("source", metavar="SOURCE", type=given, required=False, callback=_or_default)
    return one(_of_servers(command))


def _of_servers(command: Function) -> Function:
    """Give the command the options for SOURCE, and say in its help where SOURCE comes from if it is left out."""
    command.__doc__ = f"{command.__doc__}\n    Without SOURCE it is the server whose URL is in {DEFAULT_URL}.\n"
    return _over(server_options(command))


def server_of_environment() -> ServerURL | None:
    """Return the server of the URL in ``DLX_URL``; of an AMQP URL, its virtual host if it names one.

    Raises ``UsageError``.
    """
    url = os.environ.get(DEFAULT_URL)
    if not url:
        return None
    from simulator.capture.access import usual_api

    is_amqp = url.startswith(("amqp://", "amqps://"))
    try:
        server: ServerURL = _GivenURL().convert(usual_api(url) if is_amqp else url, None, None)
    except (click.UsageError, ValueError) as error:
        problem = error.message if isinstance(error, click.UsageError) else "not the URL of a server"
        raise click.UsageError(f"{DEFAULT_URL}: {problem}") from error
    return msgspec.structs.replace(server, vhost=unquote(urlsplit(url).path[1:]) or None) if is_amqp else server


def _or_default(context: click.Context, parameter: click.Parameter, given: Any) -> Any:
    """Return what was given, or the server in ``DLX_URL``."""
    if given:
        return given
    server = None if context.resilient_parsing else server_of_environment()
    if server is None:
        raise click.MissingParameter(f"Give it, or the URL of a server in {DEFAULT_URL}.", context, parameter)
    return server if parameter.nargs == 1 else (server,)


def sources_argument(command: Function) -> Function:
    """Give the command one or more arguments SOURCE, as the tuple ``sources``, and the option ``--over``."""
    several = click.argument(
        "sources", metavar="SOURCE...", type=GivenSource(), nargs=-1, required=False, callback=_check_one_standard_input
    )
    return several(_of_servers(command))


def _check_one_standard_input(context: click.Context, parameter: click.Parameter, given: Any) -> Any:
    if sum(isinstance(each, StandardInput) for each in given) > 1:
        raise click.BadParameter("standard input is there several times; it can be read once")
    return _or_default(context, parameter, given)


def _over(command: Function) -> Function:
    return click.option(
        "--over",
        type=GivenSource(),
        metavar="SOURCE",
        help="A server or files: the objects in the first SOURCE replace what is there, and the rest stays.",
    )(command)


def read_source(source: Source, over: Source | None = None) -> Definitions:
    """Return the definitions of SOURCE, laid over those of another one if there is one.

    Raises:
        DataError: they cannot be used; names file, line or field.
        Unavailable: the server does not answer, or refuses.
    """
    if isinstance(source, StandardInput) and isinstance(over, StandardInput):
        raise click.UsageError("SOURCE and --over are both standard input: give one of them as a file")
    try:
        found = _read(source)
        return found if over is None else laid_over(found, _read(over))
    except DefinitionsError as error:
        raise DataError(str(error)) from error


def read_recording_of(source: Source) -> Recording | None:
    """Return the recording whose folder SOURCE is; ``None`` for any other. Raises ``DataError``."""
    from simulator.record.recording import RecordingError, is_recording, read_recording

    if not isinstance(source, Path) or not is_recording(source):
        return None
    try:
        return read_recording(source)
    except RecordingError as error:
        raise DataError(str(error)) from error


def _read(source: Source) -> Definitions:
    if isinstance(source, ServerURL):
        return _of_server(source)
    if isinstance(source, StandardInput):
        return definitions_from_text(source.data, str(source))
    return definitions_from_file(source)


def _of_server(server: ServerURL) -> Definitions:
    fetched = _fetched(server)
    try:
        definitions = parse_definitions(fetched.data, str(server), server.vhost)
        definitions.remarks += fetched.remarks(server.url)
        definitions.is_of_server = True
        return definitions
    except DefinitionsError as error:
        if server.vhost is None or not error.problem.startswith("not JSON"):
            raise
        raise Unavailable(f"{server}: {_describe_failure(server, error.problem)}") from error


def _describe_failure(server: ServerURL, problem: str) -> str:
    """Say what to do where a server fails: 4.0 and 4.3 do for one virtual host whose name has more than ASCII."""
    if server.vhost is None:
        return f"the server failed: {problem}"
    whole = f"{msgspec.structs.replace(server, vhost=None)}".removesuffix("api/definitions")
    failed = f"the server failed to write the definitions of virtual host {server.vhost!r}: {problem}"
    return f"{failed}; give the URL of the whole server, {whole}"


def _fetched(server: ServerURL) -> ServerDefinitions:
    from simulator.capture.management_api import ManagementError, describe_refusal, is_refusal
    from simulator.capture.server_definitions import definitions_on

    try:
        return definitions_on(server.url, server.vhost)
    except ManagementError as error:
        if server.vhost is not None and error.reason == "vhost_not_found":
            raise Unavailable(f"{server}: the server has no virtual host {server.vhost!r}") from error
        if error.status >= _SERVER_FAILED:
            raise Unavailable(f"{server}: {_describe_failure(server, str(error.status))}") from error
        refused = describe_refusal(error, server.url) if is_refusal(error) else ""
        raise Unavailable(f"{server}: {refused or f'{error.status} instead of definitions; {_EXPECTED}'}") from error
    except OSError as error:
        problem = getattr(error, "reason", error)
        hint = "" if str(problem).startswith("no TLS") else f"; {_EXPECTED}"  # then the URL may be right
        raise Unavailable(f"{server}: no answer: {problem}{hint}") from error


def _describe_wrong_url(url: str) -> str:
    """Say what is wrong with a URL, without printing any part that may belong to a password."""
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018  which raises if it is not a number
    except ValueError:
        return "not the URL of a server: write special characters in user and password as %XX"
    if parts.scheme not in ("http", "https"):
        return f"{parts.scheme} is not the scheme of a management API"
    if "@" in parts.path + parts.query + parts.fragment:
        return "there is an @ after the host: write special characters in user and password as %XX"
    return "" if parts.hostname else "the URL has no host"


def _without_page(url: str) -> ServerURL:
    """Return the server of a URL that may lead to a page or to definitions, as one from a browser does."""
    parts = urlsplit(url)
    before, one, vhost = parts.path.rstrip("/").partition("/api/definitions/")
    server = parts._replace(path=before.removesuffix("/definitions"), query="", fragment="").geturl()
    return ServerURL(server, unquote(vhost) if one else None)
