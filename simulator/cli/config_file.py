"""Reads ``dlx.toml``: what a project has settled about its findings, in one file beside its definitions."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import click
import msgspec

from simulator.analysis.clients import Clients
from simulator.analysis.findings import SEVERITIES, Severity
from simulator.cli.command_parts import DataError, in_our_words
from simulator.cli.options import GivenFile
from simulator.scenario.scenario_errors import hint

NAME = "dlx.toml"
Function = TypeVar("Function", bound=Callable[..., Any])
_PLACE = re.compile(r"(.*?)(?: - at `\$\.?(.*)`)?", re.DOTALL)
_Text = Annotated[str, msgspec.Meta(min_length=1)]


class Suppression(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Findings that are not told.

    Attributes:
        rule: code or name of the rule.
        object: kind and name of what they are about, as ``queue work*``; ``*`` and ``?`` stand for any characters.
        reason: why they are not told.
        vhost: the virtual host, with ``*`` and ``?`` as well; any without it.
    """

    rule: _Text
    object: _Text
    reason: _Text
    vhost: str = "*"


class LintConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table ``lint``.

    Attributes:
        suppress: findings that are not told.
        severity: other severities of rules, by code or name.
    """

    suppress: tuple[Suppression, ...] = ()
    severity: dict[str, Severity] = {}


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file.

    Attributes:
        lint: what ``dlx lint`` takes from it.
        clients: what clients do, for ``dlx lint`` and ``dlx fuzz``.
    """

    lint: LintConfig = LintConfig()
    clients: Clients = Clients()


def config_option(help: str) -> Callable[[Function], Function]:  # as click calls it
    """Return the option ``--config`` of a command that takes it as ``config``."""
    where = f"[default: {NAME} beside SOURCE, or in the working directory]"
    return click.option("--config", type=GivenFile(), metavar="FILE", help=f"{help} {where}")


def config_beside(source: Path | None) -> Path | None:
    """Return the file beside a source, else the one in the working directory; ``None`` where there is neither."""
    places = ([] if source is None else [source.parent]) + [Path()]
    return next((place / NAME for place in places if (place / NAME).is_file()), None)


def read_config(path: Path) -> Config:
    """Return what the file says. Raises ``DataError`` naming the file, the key, and what would be right."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: expected UTF-8, got the byte {error.object[error.start]:#04x}") from error
    except tomllib.TOMLDecodeError as error:
        raise DataError(f"{path}: not TOML: {error}") from error
    try:
        return msgspec.convert(document, Config)
    except msgspec.ValidationError as error:
        raise DataError(f"{path}: {_said(str(error), document)}") from error


def _said(error: str, document: dict[str, Any]) -> str:
    """Return what msgspec says, with the key first, and what would be right."""
    found = _PLACE.fullmatch(error)
    assert found is not None
    problem, key = found[1], found[2] or ""
    told = in_our_words(problem) + hint(problem, f".{key}" if key else "", document, Config)
    if key == "lint.severity[...]":  # msgspec does not say of which rule
        wrong = (name for name, value in document["lint"]["severity"].items() if value not in SEVERITIES)
        key = f"lint.severity.{next(wrong)}"
    return f"{key}: {told}" if key else told
