"""The findings of an earlier run, which are left out: what ``dlx lint --format json`` wrote."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from simulator.analysis.findings import Finding
from simulator.files import FileContentError
from simulator.json_reading import read_json_object

Key = tuple[str, str, str, str]
_KEY = ("code", "kind", "vhost", "object")
Known = Mapping[str | None, set[Key]]
"""The findings of an earlier run, by the source they are of; by ``None`` those of whatever source is asked about."""


def key_of(finding: Finding) -> Key:
    """Return what makes a finding the same one the next time."""
    return finding.code, finding.about.kind, finding.about.vhost, finding.about.name


def known_findings(baseline: Path | None) -> Known:
    """Return the findings of an earlier run. Raises ``FileContentError`` for a file that is none."""
    if baseline is None:
        return {}
    document = read_json_object(baseline)
    if "reports" not in document:
        return {None: _read_keys(baseline, "", document)}
    reports = document["reports"]
    if not isinstance(reports, list):
        raise FileContentError(f"{baseline}: reports: expected a list, as `dlx lint --format json` writes it")
    found: dict[str | None, set[Key]] = {}
    for place, report in enumerate(reports):
        source = report.get("source") if isinstance(report, dict) else None
        if not isinstance(source, str):
            raise FileContentError(f"{baseline}: reports[{place}].source: expected a string")
        found.setdefault(source, set()).update(_read_keys(baseline, f"reports[{place}].", report))
    return found


def _read_keys(baseline: Path, where: str, report: Mapping[str, Any]) -> set[Key]:
    findings = report.get("findings")
    if not isinstance(findings, list):
        raise FileContentError(f"{baseline}: {where}findings: expected a list, as `dlx lint --format json` writes it")
    return {_read_key(baseline, f"{where}findings[{place}]", each) for place, each in enumerate(findings)}


def _read_key(baseline: Path, where: str, finding: Any) -> Key:
    fields = [finding.get(name) if isinstance(finding, dict) else None for name in _KEY]
    for name, value in zip(_KEY, fields, strict=True):
        if not isinstance(value, str):
            raise FileContentError(f"{baseline}: {where}.{name}: expected a string")
    code, kind, vhost, about = fields
    return str(code), str(kind), str(vhost), str(about)
