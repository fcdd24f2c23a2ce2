"""Prints what lint found: for people, and for the machines that collect findings."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, metadata
from operator import itemgetter
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree

import msgspec
from rich.console import Console
from rich.text import Text

import dlx
from simulator.analysis.findings import BASES, Finding, Severity
from simulator.analysis.lint.grouping import groups, pattern, together
from simulator.analysis.lint.linting import LintReport
from simulator.analysis.lint.rule import RULES, LintRule
from simulator.definitions import Place
from simulator.files import is_url
from simulator.record.facts import Fact, Recorded
from simulator.record.seen_clients import told_lost
from simulator.scenario.steps import AnyStep, History, Publish, changed, in_words

_STYLES = {"error": "bold red", "warning": "bold yellow", "note": "bold blue"}
_SARIF = {"error": "error", "warning": "warning", "note": "note"}
_SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_NOT_XML = re.compile("[^\t\n -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NOTHING = "     no findings\n"
_QUOTED = re.compile(r"'([^']*)'")
_HISTORY_MAX = 12
_PROMISES_MAX = 8


class Suppressed(msgspec.Struct, frozen=True):
    """A finding that the project does not want to see, and why."""

    finding: Finding
    reason: str


class Linted(msgspec.Struct, frozen=True):
    """The report of one source.

    Attributes:
        source: its name.
        report: what was found, without what is known or suppressed.
        known: how many findings the baseline has.
        suppressed: the findings that ``dlx.toml`` suppresses.
        one_by_one: whether people see equal findings one by one.
        recorded: what the recording says whose folder the source is.
        with_all: the options with which people get equal findings one by one, and everything.
    """

    source: str
    report: LintReport
    known: int
    suppressed: tuple[Suppressed, ...] = ()
    one_by_one: bool = False
    recorded: Recorded | None = None
    with_all: tuple[str, str] = ("--all", "--format json")

    @property
    def facts(self) -> tuple[Fact, ...]:
        """What the recording says on its own."""
        return () if self.recorded is None else self.recorded.facts

    @property
    def severities(self) -> list[Severity]:
        """The severities of all that is reported; a loss that was seen is an error."""
        lost: list[Severity] = ["error"] * any(each.lost for each in self.report.findings)
        return [*lost, *(each.severity for each in self.report.findings), *(each.severity for each in self.facts)]

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
    return "\n\n".join([*parts, f"Fix: {document.fix}", address(rule)])


def statistics(reports: Sequence[Linted]) -> str:
    """Return a table of the rules for each source, those that found most first, with how often."""
    if len(reports) == 1:
        return _counts(reports[0])
    return "".join(f"{linted.source}:\n{_counts(linted) or _NOTHING}" for linted in reports)


def _counts(linted: Linted) -> str:
    counts = Counter((each.code, each.severity) for each in linted.report.findings)
    rows = sorted(counts.items(), key=lambda row: (-row[1], row[0]))
    facts = Counter((each.severity, each.kind) for each in linted.facts)
    lines = [f"{count:>7,} {severity:<7} {kind}\n" for (severity, kind), count in facts.items()]
    lines += [f"{count:>7,} {severity:<7} {code} {RULES[code].name}\n" for (code, severity), count in rows]
    return "".join(lines)


def address(rule: LintRule) -> str:
    """Return where the document of a rule is: on the web, or in a checkout."""
    return f"{_documentation()}/how-to/lint.md#{rule.code}-{rule.name}".replace(rule.code, rule.code.lower())


def _see(rule: LintRule) -> str:
    """Return where to read on about a rule: its address on the web, or the command that prints its document."""
    return address(rule) if is_url(_documentation()) else f"dlx lint --explain {rule.code}"


@cache
def _documentation() -> str:
    """Return the address that the package was published with; the folder of a checkout, whose owner nobody knows."""
    try:
        urls = metadata("dlx-simulator").get_all("Project-URL") or []
    except PackageNotFoundError:
        urls = []
    known: dict[str, str] = dict(url.split(", ", 1) for url in urls)
    published = known.get("Documentation", "")
    return published if published and "/OWNER/" not in published else "docs"


def _text(reports: Sequence[Linted], several: bool) -> str:
    parts = [_printed(_lines(each)) for each in reports]
    return "\n".join(parts)


def _lines(linted: Linted) -> list[Text]:
    report = linted.report
    lines = [] if linted.recorded is None else list(_of_recording(linted.recorded))
    alike = [[each] for each in report.findings] if linted.one_by_one else groups(report.findings)
    seen: set[str] = set()
    told = [(_rank(fact), _told_fact(fact)) for fact in linted.facts]
    for findings in sorted(alike, key=lambda each: _rank(each[0])):
        first = findings[0]
        told.append((_rank(first), _told(findings, linted.told(first), see=first.code not in seen)))
        seen.add(first.code)
    lines += [line for _, lines_of in sorted(told, key=itemgetter(0)) for line in lines_of]
    lines.append(Text(_summary(linted, len(alike)), "bold"))
    assumed, unchecked = (_merged(said) for said in (report.assumed, report.unchecked))
    _, whole = linted.with_all
    return lines + _remarks("Assumed", assumed, _PROMISES_MAX, whole) + _remarks("Not checked", unchecked, 0, whole)


def _of_recording(recorded: Recorded) -> Iterator[Text]:
    """Yield what a recording says on its own."""
    yield _visible(Text(f"{recorded.sentence}."))
    for each in recorded.not_seen:
        yield _visible(Text(f"Not recorded: {each}."))
    yield Text("")


def _rank(told: Fact | Finding) -> int:
    """Return the place of what is reported: first losses that were seen, then other facts of the recording."""
    if isinstance(told, Fact):
        return 0 if told.severity == "error" else 1
    return 0 if told.lost else 2


def _told_fact(fact: Fact) -> list[Text]:
    first = Text.assemble((fact.severity, _STYLES[fact.severity]), f" {fact.kind}: {fact.text}.")
    return [_visible(line) for line in [first, *(Text(f"    {sentence}") for sentence in fact.story), Text("")]]


def _merged(said: Sequence[str]) -> tuple[str, ...]:
    """Return sentences that differ only in names as one sentence, with how many there are."""
    names: dict[str, list[list[str]]] = {}
    for each in said:
        names.setdefault(_QUOTED.sub("''", each), []).append(_QUOTED.findall(each))
    return tuple(_filled(text, found) for text, found in names.items())


def _filled(text: str, names: Sequence[Sequence[str]]) -> str:
    patterns = map(pattern, zip(*names, strict=True))
    more = f" ({len(names):,} of these)" if len(names) > 1 else ""
    return _QUOTED.sub(lambda _: next(patterns), text) + more


def _printed(lines: list[Text]) -> str:
    console = Console(highlight=False)
    with console.capture() as capture:
        for line in lines:
            console.print(line, soft_wrap=True)
    return capture.get()


def heading(finding: Finding, alike: Sequence[Finding] = ()) -> Text:
    """Return the line that says what is wrong, by which rule, and of how many objects."""
    severity = finding.severity, _STYLES[finding.severity]
    of = f"{together([each.about for each in alike])}, such as: " if len(alike) > 1 else ""
    return Text.assemble(severity, f" {finding.code} {finding.name}: {of}", finding.message)


def _told(alike: Sequence[Finding], place: str, *, see: bool) -> list[Text]:
    """Return the lines about findings that are equal up to names: those of the first, with the rule's address."""
    finding = alike[0]
    at = [Text(f"  at: {place}")] if place else []
    lines = [heading(finding, alike), *at, *_rests_on(alike)]
    lines += [Text(f"  declared by: {tests}")] if (tests := _declared_by(alike)) else []
    lines += [Text(f"  because: {finding.because}"), Text(f"  fix: {finding.fix}")]
    if finding.story:
        lines += [Text("  what happened to the first:"), *(Text(f"    {sentence}") for sentence in finding.story)]
    elif finding.history and finding.severity != "note":
        steps = in_words(_joined(finding.history))
        more = [f"... {len(steps) - _HISTORY_MAX} more steps"] if len(steps) > _HISTORY_MAX else []
        lines.append(Text(f"  this {'holds' if finding.held else 'loses'} a message, and needs {finding.needs}:"))
        lines += [Text(f"    {step}") for step in [*steps[:_HISTORY_MAX], *more]]
    if see:
        lines.append(Text(f"  see: {_see(RULES[finding.code])}"))
    return [_visible(each) for each in lines] + [Text("")]


def _rests_on(alike: Sequence[Finding]) -> Iterator[Text]:
    """Yield what the first of equal findings rests on, with how many rest on what."""
    first = alike[0]
    if first.basis:
        counts = Counter(each.basis for each in alike)
        of = "" if len(alike) == 1 else f" ({', '.join(f'{counts[each]} {each}' for each in BASES if counts[each])})"
        lost = [each.lost for each in alike if each.lost]
        text = told_lost(sum(map(Counter, lost), Counter()), len(lost)) if len(lost) > 1 else first.basis_text
        yield Text(f"  {first.basis}{of}: {text}")


def _declared_by(findings: Sequence[Finding]) -> str:
    """Return which tests declared the objects, in a phrase; nothing where no tests did."""
    tests = list(dict.fromkeys(test for each in findings for test in each.declared_by))
    more = f" and {len(tests) - 1:,} more" if len(tests) > 1 else ""
    return f"{tests[0]}{more}" if tests else ""


def _joined(history: History) -> History:
    """Return the history with equal publishes in a row as one."""
    found: list[AnyStep] = []
    for step in history:
        last = found[-1] if found else None
        if isinstance(step, Publish) and isinstance(last, Publish) and changed(step, times=last.times) == last:
            found[-1] = changed(step, times=last.times + step.times)
        else:
            found.append(step)
    return tuple(found)


def _visible(line: Text) -> Text:
    """Return the line with control characters written out: a name may hold line breaks, and what terminals obey."""
    plain = "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in line.plain)
    return line if plain == line.plain else Text(plain)


def _summary(linted: Linted, different: int) -> str:
    report, source, hidden = linted.report, linted.source, linted.known
    counts = Counter(each.severity for each in linted.facts) + Counter(each.severity for each in report.findings)
    found = ", ".join(f"{count} {_plural(severity, count)}" for severity, count in counts.items()) or "no findings"
    known = f"; {hidden} known from the baseline" if hidden else ""
    suppressed = f"; {len(linted.suppressed)} suppressed" if linted.suppressed else ""
    equal = (
        ""
        if different == len(report.findings)
        else f"; equal ones together, {linted.with_all[0]} has all {len(report.findings)}"
    )
    queues = f"{report.queues} {_plural('queue', report.queues)}"
    return f"{source}: {found} in {queues} under {report.release}{known}{suppressed}{equal}"


def _plural(word: str, count: int) -> str:
    return word if count == 1 else f"{word}s"


def _remarks(title: str, said: tuple[str, ...], most: int, where: str) -> list[Text]:
    """Return the remarks, at most that many if ``most`` is not 0; of the others the number, and what has all."""
    shown = said if not most or len(said) <= most else (*said[: most - 2], *said[-2:])
    lines = [Text(f"{title}: {each}") for each in shown]
    if len(shown) < len(said):
        lines.append(Text(f"{title}: {len(said) - len(shown)} more; {where} has all"))
    return lines


def _json(reports: Sequence[Linted], several: bool) -> str:
    documents = [
        {
            "source": each.source,
            **each.report.as_json(),
            **({} if each.recorded is None else {"recording": msgspec.to_builtins(each.recorded)}),
            "known": each.known,
            "suppressed": [{**one.finding.as_json(), "reason": one.reason} for one in each.suppressed],
        }
        for each in reports
    ]
    return msgspec.json.encode({"reports": documents} if several else documents[0]).decode() + "\n"


def _sarif(reports: Sequence[Linted], several: bool) -> str:
    """Return one run for all: the code scanning of GitHub takes one of each tool."""
    driver = {
        "name": "dlx lint",
        "version": dlx.__version__,
        "rules": [_sarif_rule(each) for each in RULES.values()],
    }
    results = [_sarif_result(finding, each.place(finding)) for each in reports for finding in each.report.findings]
    run: dict[str, Any] = {"tool": {"driver": driver}, "results": results}
    recordings = [msgspec.to_builtins(each.recorded) for each in reports if each.recorded is not None]
    if recordings:
        run["properties"] = {"recordings": recordings}
    document = {"$schema": _SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}
    return msgspec.json.encode(document).decode() + "\n"


def _sarif_rule(rule: LintRule) -> dict[str, Any]:
    return {
        "id": rule.code,
        "name": rule.name,
        "shortDescription": {"text": rule.document.what},
        "fullDescription": {"text": f"{rule.document.what} {rule.document.why}"},
        "help": {"text": explained(rule)},
        **({"helpUri": address(rule)} if is_url(_documentation()) else {}),
    }


def _sarif_result(finding: Finding, place: Place) -> dict[str, Any]:
    about = finding.about
    properties: dict[str, Any] = {"basis": finding.basis, "basis_text": finding.basis_text} if finding.basis else {}
    properties |= {"declared_by": finding.declared_by} if finding.declared_by else {}
    return {
        "ruleId": finding.code,
        "level": _SARIF[finding.severity],
        "message": {"text": _addressed(place, finding)},
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
        **({"properties": properties} if properties else {}),
    }


def _paragraph(finding: Finding) -> str:
    """Return the finding as plain text: what is wrong, the deciding rule and the fix, each on a line of its own."""
    rests_on = f"\n{finding.basis.capitalize()}: {finding.basis_text}." if finding.basis else ""
    tests = _declared_by([finding])
    declared = f"\nDeclared by: {tests}." if tests else ""
    return f"{finding.message}{rests_on}{declared}\nBecause: {finding.because}.\nFix: {finding.fix}."


def _addressed(place: Place, finding: Finding) -> str:
    """Return the paragraph behind the address of the object, for which these formats have no field."""
    prefix = "" if place.address is msgspec.UNSET else f"{place.address}: "
    return f"{prefix}{_paragraph(finding)}"


def _uri(source: str) -> str:
    return source if is_url(source) else quote(source.replace("\\", "/"), safe="/")


def _junit(reports: Sequence[Linted], several: bool) -> str:
    """Return a suite for each source."""
    suites = [suite_of(each) for each in reports]
    root = suites[0]
    if several:
        root = ElementTree.Element("testsuites")
        root.extend(suites)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def suite_of(linted: Linted, failing: Collection[Severity] = ("error", "warning")) -> ElementTree.Element:
    """Return a test case for each rule: it fails where the rule found something of a severity that is ``failing``.

    Other errors and warnings stand in the output of a case that passes.
    """
    suite = ElementTree.Element("testsuite", name=_clean(f"dlx lint {linted.source}"))
    failures = 0
    for rule in RULES.values():
        case = ElementTree.SubElement(suite, "testcase", classname="dlx.lint", name=f"{rule.code} {rule.name}")
        of_rule = [each for each in linted.report.findings if each.code == rule.code]
        found = [each for each in of_rule if each.severity in failing]
        if found:
            failures += 1
            failure = ElementTree.SubElement(case, "failure", message=_clean(found[0].message))
            failure.text = _clean("\n\n".join(_located(each, linted) for each in found))
        others = [each for each in of_rule if each.severity not in (*failing, "note")]
        if others:
            output = ElementTree.SubElement(case, "system-out")
            output.text = _clean("\n\n".join(_located(each, linted) for each in others))
    for fact in linted.facts:
        case = ElementTree.SubElement(
            suite, "testcase", classname="dlx.record", name=_clean(f"{fact.kind}: {fact.text}")
        )
        if fact.severity in failing:
            failures += 1
            ElementTree.SubElement(case, "failure", message=_clean(fact.text)).text = _clean("\n".join(fact.story))
    suite.set("tests", str(len(RULES) + len(linted.facts)))
    suite.set("failures", str(failures))
    return suite


def _located(finding: Finding, linted: Linted) -> str:
    return ": ".join(filter(None, (linted.told(finding), str(finding.about), _paragraph(finding))))


def _clean(text: str) -> str:
    """Return the text without characters that XML cannot hold; a queue's name may have any."""
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)


_GITHUB = {"error": "error", "warning": "warning", "note": "notice"}


def _github(reports: Sequence[Linted], several: bool) -> str:
    facts = [
        (_rank(fact), f"::{_GITHUB[fact.severity]} title={fact.kind}::{_escaped(fact.text)}")
        for linted in reports
        for fact in linted.facts
    ]
    lines = facts + [
        (
            _rank(each),
            f"::{_GITHUB[each.severity]} file={_escaped(place.file, property=True)},"
            f"line={place.line},title={each.code} {each.name}::" + _escaped(_addressed(place, each)),
        )
        for linted in reports
        for each in linted.report.findings
        for place in [linted.place(each)]
    ]
    return "".join(f"{line}\n" for _, line in sorted(lines, key=itemgetter(0)))


def _escaped(text: str, *, property: bool = False) -> str:
    for character, code in (("%", "%25"), ("\r", "%0D"), ("\n", "%0A"), *([(":", "%3A"), (",", "%2C")] * property)):
        text = text.replace(character, code)
    return text


def plain_text(linted: Linted) -> str:
    """Return the report for people without colours, as files have it."""
    return "".join(f"{line.plain}\n" for line in _lines(linted))


FORMATS: dict[str, Format] = {"text": _text, "json": _json, "sarif": _sarif, "junit": _junit, "github": _github}
