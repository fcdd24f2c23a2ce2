"""What a project has settled about its findings in its ``dlx.toml``: which are not told, and other severities."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any

import msgspec

from simulator.analysis.clients import NOTHING_STATED, Clients
from simulator.analysis.findings import SEVERITIES, Finding, ObjectName, Severity
from simulator.analysis.lint.linting import LintReport, in_order
from simulator.analysis.lint.rule import RULES, rule_named
from simulator.files import FileContentError
from simulator.lint_reports.baseline import Known, key_of
from simulator.lint_reports.formats import Linted, Suppressed
from simulator.record.facts import Recorded
from simulator.scenario.scenario_errors import hint, in_our_words

NAME = "dlx.toml"
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


def read_config(path: Path) -> Config:
    """Return what the file says. Raises ``FileContentError`` naming the file, the key, and what would be right."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FileContentError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise FileContentError(f"{path}: expected UTF-8, got the byte {error.object[error.start]:#04x}") from error
    except tomllib.TOMLDecodeError as error:
        raise FileContentError(f"{path}: not TOML: {error}") from error
    try:
        return msgspec.convert(document, Config)
    except msgspec.ValidationError as error:
        raise FileContentError(f"{path}: {_said(str(error), document)}") from error


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
    """Return what the file says. Raises ``FileContentError`` naming the file and the key."""
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
        raise FileContentError(f"{path}: {key}: {error.args[0]}") from error


def reported(
    source: str,
    report: LintReport,
    known: Known,
    project: Settled,
    codes: Collection[str] = frozenset(RULES),
    recorded: Recorded | None = None,
) -> Linted:
    """Return the report of a source without what is known or suppressed, or of rules that nobody asked for."""
    old = known.get(None, set()) | known.get(source, set())
    told, suppressed, hidden = list[Finding](), list[Suppressed](), 0
    for each in report.findings:
        reason = project.reason(each)
        if each.code not in codes:
            continue
        if reason is not None:
            suppressed.append(Suppressed(each, reason))
        elif key_of(each) in old and each.basis != "seen":
            hidden += 1
        else:
            told.append(project.judged(each))
    findings = tuple(in_order(told))
    left = msgspec.structs.replace(report, findings=findings)
    return Linted(source, left, hidden, tuple(suppressed), recorded=recorded)
