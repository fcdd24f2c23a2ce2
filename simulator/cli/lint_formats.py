"""Prints what lint found: for people, and for the machines that collect findings."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree

import msgspec
from rich.console import Console
from rich.text import Text

import dlx
from simulator.analysis.findings import Finding
from simulator.analysis.lint.linting import LintReport
from simulator.analysis.lint.rule import RULES, LintRule
from simulator.cli.options import is_url
from simulator.definitions import Place
from simulator.scenario.steps import in_words

_STYLES = {"error": "bold red", "warning": "bold yellow", "note": "bold blue"}
_SARIF = {"error": "error", "warning": "warning", "note": "note"}
_SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_NOT_XML = re.compile("[^\t\n -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_HISTORY_MAX = 12
_PROMISES_MAX = 8


class Linted(msgspec.Struct, frozen=True):
    """The report of one source, by the source's name; ``known`` findings of the baseline are left out of it."""

    source: str
    report: LintReport
    known: int

    def place(self, finding: Finding) -> Place:
        """Return where the object of a finding stands; the top of the source where that is not known."""
        return finding.place or Place(self.source, 1)

    def told(self, finding: Finding) -> str:
        """Return the place of a finding where it says more than the name of the source does, or nothing."""
        place = self.place(finding)
        return "" if place == Place(self.source, 1) else place.file_and_line


Format = Callable[[Sequence[Linted], bool], str]
"""Returns the text, with its last newline: of reports, and whether several were asked for."""


def explained(rule: LintRule) -> str:
    """Return a rule's document as plain text."""
    document = rule.document
    parts = [f"{rule.code} {rule.name}", document.what, f"Why: {document.why}", f"Example: {document.example}"]
    return "\n\n".join([*parts, f"Fix: {document.fix}"])


def _text(reports: Sequence[Linted], several: bool) -> str:
    parts = [_printed(_lines(each)) for each in reports]
    return "\n".join(parts)


def _lines(linted: Linted) -> list[Text]:
    report = linted.report
    lines: list[Text] = []
    for each in report.findings:
        lines += _told(each, linted.told(each))
    lines.append(Text(_summary(linted), "bold"))
    return lines + _remarks("Assumed", report.assumed, _PROMISES_MAX) + _remarks("Not checked", report.unchecked, 0)


def _printed(lines: list[Text]) -> str:
    console = Console(highlight=False)
    with console.capture() as capture:
        for line in lines:
            console.print(line, soft_wrap=True)
    return capture.get()


def heading(finding: Finding) -> Text:
    """Return the line that says what is wrong, and by which rule."""
    severity = finding.severity, _STYLES[finding.severity]
    return Text.assemble(severity, f" {finding.code} {finding.name}: ", finding.message)


def _told(finding: Finding, place: str) -> list[Text]:
    at = [Text(f"  at: {place}")] if place else []
    lines = [heading(finding), *at, Text(f"  because: {finding.because}"), Text(f"  fix: {finding.fix}")]
    if finding.history:
        steps = in_words(finding.history)
        more = [f"... {len(steps) - _HISTORY_MAX} more steps"] if len(steps) > _HISTORY_MAX else []
        lines.append(Text("  this loses a message:"))
        lines += [Text(f"    {step}") for step in [*steps[:_HISTORY_MAX], *more]]
    return [_visible(each) for each in lines] + [Text("")]


def _visible(line: Text) -> Text:
    """Return the line with control characters written out: a name may hold line breaks, and what terminals obey."""
    plain = "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in line.plain)
    return line if plain == line.plain else Text(plain)


def _summary(linted: Linted) -> str:
    report, source, hidden = linted.report, linted.source, linted.known
    counts = Counter(each.severity for each in report.findings)
    found = ", ".join(f"{count} {_plural(severity, count)}" for severity, count in counts.items()) or "no findings"
    known = f"; {hidden} known from the baseline" if hidden else ""
    return f"{source}: {found} in {report.queues} {_plural('queue', report.queues)} under {report.release}{known}"


def _plural(word: str, count: int) -> str:
    return word if count == 1 else f"{word}s"


def _remarks(title: str, said: tuple[str, ...], most: int) -> list[Text]:
    """Return the remarks, at most that many if ``most`` is not 0; the number of the others is told."""
    shown = said if not most or len(said) <= most else (*said[: most - 2], *said[-2:])
    lines = [Text(f"{title}: {each}") for each in shown]
    if len(shown) < len(said):
        lines.append(Text(f"{title}: {len(said) - len(shown)} more; --format json has all"))
    return lines


def _json(reports: Sequence[Linted], several: bool) -> str:
    documents = [{"source": each.source, **each.report.as_json(), "known": each.known} for each in reports]
    return msgspec.json.encode({"reports": documents} if several else documents[0]).decode() + "\n"


def _sarif(reports: Sequence[Linted], several: bool) -> str:
    """Return one run for all: the code scanning of GitHub takes one of each tool."""
    driver = {
        "name": "dlx lint",
        "version": dlx.__version__,
        "rules": [_sarif_rule(each) for each in RULES.values()],
    }
    results = [_sarif_result(finding, each.place(finding)) for each in reports for finding in each.report.findings]
    document = {
        "$schema": _SARIF_SCHEMA,
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }
    return msgspec.json.encode(document).decode() + "\n"


def _sarif_rule(rule: LintRule) -> dict[str, Any]:
    return {
        "id": rule.code,
        "name": rule.name,
        "shortDescription": {"text": rule.document.what},
        "fullDescription": {"text": f"{rule.document.what} {rule.document.why}"},
        "help": {"text": explained(rule)},
    }


def _sarif_result(finding: Finding, place: Place) -> dict[str, Any]:
    about = finding.about
    return {
        "ruleId": finding.code,
        "level": _SARIF[finding.severity],
        "message": {"text": _paragraph(finding)},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": _uri(place.file)},
                    "region": {"startLine": place.line},
                },
                "logicalLocations": [{"kind": about.kind, "name": about.name, "fullyQualifiedName": str(about)}],
            }
        ],
        "partialFingerprints": {"object/v1": f"{finding.code}/{about.kind}/{about.vhost}/{about.name}"},
    }


def _paragraph(finding: Finding) -> str:
    """Return the finding as plain text: what is wrong, the deciding rule and the fix, each on a line of its own."""
    return f"{finding.message}\nBecause: {finding.because}.\nFix: {finding.fix}."


def _uri(source: str) -> str:
    return source if is_url(source) else quote(source.replace("\\", "/"), safe="/")


def _junit(reports: Sequence[Linted], several: bool) -> str:
    """Return a suite for each source."""
    suites = [_suite(each) for each in reports]
    root = suites[0]
    if several:
        root = ElementTree.Element("testsuites")
        root.extend(suites)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _suite(linted: Linted) -> ElementTree.Element:
    """Return a test case for each rule: it fails where the rule found something that is no note."""
    failing = [each for each in linted.report.findings if each.severity != "note"]
    suite = ElementTree.Element("testsuite", name=_clean(f"dlx lint {linted.source}"), tests=str(len(RULES)))
    failures = 0
    for rule in RULES.values():
        case = ElementTree.SubElement(suite, "testcase", classname="dlx.lint", name=f"{rule.code} {rule.name}")
        found = [each for each in failing if each.code == rule.code]
        if found:
            failures += 1
            failure = ElementTree.SubElement(case, "failure", message=_clean(found[0].message))
            told = [": ".join(filter(None, (linted.told(each), str(each.about), _paragraph(each)))) for each in found]
            failure.text = _clean("\n\n".join(told))
    suite.set("failures", str(failures))
    return suite


def _clean(text: str) -> str:
    """Return the text without characters that XML cannot hold; a queue's name may have any."""
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)


_GITHUB = {"error": "error", "warning": "warning", "note": "notice"}


def _github(reports: Sequence[Linted], several: bool) -> str:
    lines = [
        f"::{_GITHUB[each.severity]} file={_escaped(linted.place(each).file, property=True)},"
        f"line={linted.place(each).line},title={each.code} {each.name}::" + _escaped(_paragraph(each))
        for linted in reports
        for each in linted.report.findings
    ]
    return "".join(f"{line}\n" for line in lines)


def _escaped(text: str, *, property: bool = False) -> str:
    for character, code in (("%", "%25"), ("\r", "%0D"), ("\n", "%0A"), *([(":", "%3A"), (",", "%2C")] * property)):
        text = text.replace(character, code)
    return text


FORMATS: dict[str, Format] = {"text": _text, "json": _json, "sarif": _sarif, "junit": _junit, "github": _github}
