"""A running server that a command is given: its URL, ``DLX_URL`` where there is none, and what the URL leaves out.

``server_options`` gives a command the options for passwords and certificates, and ``given_url`` follows them.
"""

from __future__ import annotations

import getpass
import os
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from simulator.cli.command_parts import Function
from simulator.files import is_url

if TYPE_CHECKING:  # imported where they are needed: few commands are given a server
    from simulator.capture.access import TLS, Access


DEFAULT_URL = "DLX_URL"
_META = __name__
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


def _keep(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    """Keep the value of an option where ``given_url`` finds it."""
    if not context.resilient_parsing:  # nobody is asked for a password while a shell completes the line
        context.meta.setdefault(_META, {})[parameter.name] = value


def _option(*names: str, **how: Any) -> Callable[[Function], Function]:
    return click.option(*names, is_eager=True, expose_value=False, callback=_keep, **how)


_OPTIONS = (
    _option(
        "--password-file",
        type=_FILE,
        metavar="FILE",
        help="Password that a URL leaves out: the first line of FILE. netrc and DLX_PASSWORD_FILE give it, too.",
    ),
    _option("--ask-password", is_flag=True, help="Ask for the password that a URL leaves out on the terminal."),
    _option("--tls-ca", type=_FILE, metavar="FILE", help="CA of the server's certificate (PEM), for amqps and https."),
    _option(
        "--tls-cert",
        type=_FILE,
        metavar="FILE",
        help="Client certificate (PEM); the login for amqps without a user.",
    ),
    _option("--tls-key", type=_FILE, metavar="FILE", help="Key of the client certificate, if it is in another file."),
)


def server_options(command: Function) -> Function:
    """Give the command the options for passwords and certificates of the URLs that it takes."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def given_url(url: str, user_of: str | None = None) -> str:
    """Return a URL with the user, the password and the certificates that it leaves out.

    Args:
        url: as it was given.
        user_of: a URL from ``given_url`` whose user it has if it names none itself.

    Raises ``UsageError``, which repeats no password.
    """
    from simulator.capture.access import AccessError, complete, hidden, with_user_of

    try:
        return complete(url if user_of is None else with_user_of(url, user_of), _access())
    except AccessError as error:
        raise click.UsageError(f"{hidden(url)}: {error}") from error


def given_urls(urls: str) -> str:
    """Do as ``given_url`` for ``AMQP_URL`` or ``AMQP_URL|MANAGEMENT_URL``."""
    amqp_url, bar, management_url = urls.partition("|")
    return f"{given_url(amqp_url)}{bar}{given_metrics_url(management_url)}"


def given_metrics_url(url: str) -> str:
    """Do as ``given_url`` if the URL names a user; without one it stays without."""
    return given_url(url) if "@" in url else url


def given_tls() -> TLS:
    """Return the certificates that the command was given."""
    from simulator.capture.access import TLS

    return TLS(*(_kept().get(name) for name in ("tls_ca", "tls_cert", "tls_key")))


def given_again(url: str) -> tuple[str, list[str]]:
    """Return a URL without its password, and the options of this command that another one needs to get in by it."""
    from simulator.capture.access import AccessError, complete

    parts = urlsplit(url)
    user, _, where = parts.netloc.rpartition("@")
    bare = parts._replace(netloc=f"{user.partition(':')[0]}@{where}" if user else where).geturl()
    given = {name: value for name, value in _kept().items() if value and name != "asked"}
    if parts.password and not {"password_file", "ask_password"} & given.keys():
        try:
            given |= {"ask_password": True} if complete(bare) != complete(url) else {}
        except AccessError:  # nothing else has it
            given["ask_password"] = True
    named = {f"--{name.replace('_', '-')}": value for name, value in given.items()}
    return bare, [part for name, value in named.items() for part in ([name] if value is True else [name, str(value)])]


def url_first(*given: str | None) -> tuple[str | None, ...]:
    """Return arguments of which the first is a URL: that in ``DLX_URL``, if it was left out."""
    url = os.environ.get(DEFAULT_URL)
    left_out = given[-1] is None and not is_url(given[0] or "")
    return (url, *given[:-1]) if url and left_out else given


def _kept() -> dict[str, Any]:
    context = click.get_current_context(silent=True)
    kept: dict[str, Any] = {} if context is None else context.meta.get(_META, {})
    return kept


def _access() -> Access:
    from simulator.capture.access import Access, password_in

    kept = _kept()
    file, asks = kept.get("password_file"), kept.get("ask_password")
    if file and asks:
        raise click.UsageError("--password-file and --ask-password both give the password; leave one of them out")
    password = kept.setdefault("asked", cache(_ask)) if asks else password_in(file) if file else None
    return Access(password, given_tls())


def _ask(who: str) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("error", getpass.GetPassWarning)
        try:
            return getpass.getpass(f"Password of {who}: ")
        except (getpass.GetPassWarning, EOFError) as error:
            raise click.UsageError(
                "--ask-password asks on a terminal, and there is none; use --password-file"
            ) from error
