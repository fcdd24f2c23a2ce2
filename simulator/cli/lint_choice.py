"""Which findings of ``dlx lint`` are told: by options, and by what a project has settled in ``dlx.toml``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import click
import msgspec

from simulator.analysis.clients import NOTHING_STATED, Clients
from simulator.analysis.findings import Finding, ObjectName, Severity
from simulator.analysis.lint.rule import RULES, rule_named
from simulator.cli.command_parts import DataError
from simulator.cli.config_file import Suppression, read_config


class Rules(click.ParamType):  # type: ignore[type-arg]  # which takes an argument from click 8.4 on
    """Codes or names of rules, with commas between several."""

    name = "RULE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the codes. Fails with the nearest name for what is no rule."""
        if not isinstance(value, str):
            return value
        try:
            return [rule_named(each.strip()).code for each in value.split(",")]
        except KeyError as error:
            self.fail(str(error.args[0]), param, ctx)


class Settled(msgspec.Struct, frozen=True):
    """What one ``dlx.toml`` says of findings; nothing where there is none.

    Attributes:
        path: the file.
        suppress: what is suppressed, each with the code of its rule.
        severity: other severities by the code of the rule.
        used: the places in ``suppress`` of those that something matched.
        clients: what clients do.
    """

    path: Path | None = None
    suppress: tuple[tuple[str, Suppression], ...] = ()
    severity: Mapping[str, Severity] = {}
    used: set[int] = msgspec.field(default_factory=set)
    clients: Clients = NOTHING_STATED

    def judged(self, finding: Finding) -> Finding:
        """Return the finding with the severity that the file gives it."""
        severity = self.severity.get(finding.code, finding.severity)
        return msgspec.structs.replace(finding, severity=severity)

    def reason(self, finding: Finding) -> str | None:
        """Return why the finding is not told; ``None`` if it is."""
        found = [place for place, (code, each) in enumerate(self.suppress)
                 if code == finding.code and _is_about(each, finding.about)]  # fmt: skip
        self.used.update(found)
        return self.suppress[found[0]][1].reason if found else None

    def idle(self) -> list[str]:
        """Say which suppressions match nothing."""
        return [
            f"{self.path}: lint.suppress[{place}]: no finding of {code} is about {each.object!r}; take it out"
            for place, (code, each) in enumerate(self.suppress)
            if place not in self.used
        ]


def _is_about(suppression: Suppression, about: ObjectName) -> bool:
    if not suppression.object.startswith(f"{about.kind} "):
        return False
    name = suppression.object.removeprefix(f"{about.kind} ")
    return fnmatchcase(about.name, name) and fnmatchcase(about.vhost, suppression.vhost)


def settled(path: Path | None) -> Settled:
    """Return what the file says. Raises ``DataError`` naming the file and the key."""
    if path is None:
        return Settled()
    config = read_config(path)
    found = config.lint
    suppress = [(_code(path, f"lint.suppress[{place}].rule", each.rule), each) for place, each in
                enumerate(found.suppress)]  # fmt: skip
    severity = {_code(path, f"lint.severity.{name}", name): each for name, each in found.severity.items()}
    return Settled(path, tuple(suppress), severity, clients=config.clients)


def _code(path: Path, key: str, name: str) -> str:
    try:
        return rule_named(name).code
    except KeyError as error:
        raise DataError(f"{path}: {key}: {error.args[0]}") from error


def chosen(select: Iterable[list[str]], ignore: Iterable[list[str]]) -> frozenset[str]:
    """Return the codes of the rules whose findings are told."""
    selected = {code for codes in select for code in codes} or set(RULES)
    return frozenset(selected.difference(*ignore))
