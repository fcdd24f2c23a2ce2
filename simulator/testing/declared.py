"""What tests declare on their brokers, and what lint finds in it: each finding once, with the tests it is from.

Tests declare parts of what an application declares, and often the same object. So the declarations of tests that
agree are linted together, as one export; those of a test that disagree are linted apart from the others.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec

from dlx.releases import release
from simulator.analysis.findings import Finding, ObjectName
from simulator.analysis.lint.linting import LintReport, in_order
from simulator.analysis.lint.linting import lint as lint_definitions
from simulator.definitions import Definitions, DefinitionsError, Place
from simulator.lint_reports.baseline import Known
from simulator.lint_reports.formats import Linted
from simulator.lint_reports.project import Settled, reported
from simulator.record.recorder import ApplicationRecorder
from simulator.record.recording import SECTIONS, Declaration, binding_name
from simulator.testing.brokers.broker_under_test import Broker
from simulator.testing.brokers.servers import ManagementError
from simulator.testing.brokers.simulated import SimulatedBroker

SOURCE = "the tests' declarations"
"""What reports call the source of the findings."""
_POLICIES = ("policies", "parameters")
_OF_VHOST = ("metadata", "limits", "default_queue_type")
_NOT_SHOWN = "what was exclusive on real servers, or was deleted before its test ended: their export has none of it"
_SECTIONS = (*SECTIONS.values(), *_POLICIES)


class Test(msgspec.Struct, frozen=True, order=True):
    """A test: its id, as pytest prints it, and the line where it begins."""

    __test__ = False
    id: str
    line: int

    @property
    def place(self) -> Place:
        """Where it stands."""
        return Place(self.id.partition("::")[0], self.line)


class Item(msgspec.Struct):
    """An object that tests declared: its section and item in an export, and those tests."""

    section: str
    item: dict[str, Any]
    tests: list[Test]


class Export(msgspec.Struct):
    """The declarations of tests that agree.

    Attributes:
        release: of their brokers.
        vhosts: the virtual hosts, as an export has them.
        policies: policies and parameters, by section; they decide about queues by patterns, so they agree only if they
            are all equal.
        items: queues, exchanges and bindings by a key of each.
        tests: all of these tests.
    """

    release: str
    vhosts: list[dict[str, Any]]
    policies: dict[str, list[dict[str, Any]]]
    items: dict[str, Item]
    tests: list[Test]

    def agrees_with(self, other: Export) -> bool:
        """Return whether no object is declared in two ways."""
        if (self.release, self.vhosts, self.policies) != (other.release, other.vhosts, other.policies):
            return False
        return all(key not in self.items or self.items[key].item == each.item for key, each in other.items.items())

    def add(self, other: Export) -> None:
        """Take what agrees."""
        self.tests = list(dict.fromkeys([*self.tests, *other.tests]))
        for key, each in other.items.items():
            found = self.items.setdefault(key, each)
            found.tests = list(dict.fromkeys([*found.tests, *each.tests]))

    def lint(self, project: Settled) -> LintReport:
        """Return what lint finds, each finding with the tests that declared its object or what names that.

        Raises ``DefinitionsError`` where the broker refuses all of it together.
        """
        listed = [*self.items.values()]
        listed += [Item(section, each, self.tests) for section, found in self.policies.items() for each in found]
        document: dict[str, Any] = {"vhosts": self.vhosts, **{section: [] for section in _SECTIONS}}
        places: dict[tuple[str | int, ...], Place] = {}
        tests: dict[Place, list[Test]] = {}
        for each in listed:
            of_section = document[each.section]
            place = Place(each.section, len(of_section) + 1)  # by which a finding leads to its tests
            places[each.section, len(of_section)], tests[place] = place, each.tests
            of_section.append(each.item)
        definitions = Definitions(document, SOURCE, places=places)
        definitions.is_of_server = definitions.is_composed = True
        report = lint_definitions(definitions, release(self.release), project.clients)
        findings = tuple(_of_tests(each, tests.get(each.place, ()) if each.place else ()) for each in report.findings)
        return msgspec.structs.replace(report, findings=findings)


def _of_tests(finding: Finding, tests: Collection[Test]) -> Finding:
    by_id = sorted(tests)  # whatever the order in which workers ran them
    place = by_id[0].place if by_id else None
    return msgspec.structs.replace(finding, place=place, declared_by=tuple(each.id for each in by_id))


class Declarations:
    """What the tests of one process declared, or those of several whose declarations were received.

    Attributes:
        exports: of tests that declared the same.
        unchecked: what could not be noted, in sentences.
    """

    def __init__(self) -> None:
        self.exports: list[Export] = []
        self.unchecked: list[str] = []

    def take(self, broker: Watched) -> None:
        """Take what tests declared on a broker."""
        for each in broker.exports:
            self.add(each)
        if broker.exports and not broker.simulated:
            self.unchecked.append(_NOT_SHOWN)

    def add(self, one: Export) -> None:
        """Add what tests declared."""
        for each in self.exports:
            if each.items.keys() == one.items.keys() and each.agrees_with(one):
                each.add(one)
                return
        self.exports.append(one)

    def sent(self) -> str:
        """Return all as text, for another process."""
        # Not msgspec's JSON: names may have surrogates.
        return json.dumps(msgspec.to_builtins({"exports": self.exports, "unchecked": self.unchecked}))

    def receive(self, sent: str) -> None:
        """Add what another process sent."""
        found = json.loads(sent)
        for each in msgspec.convert(found["exports"], list[Export]):
            self.add(each)
        self.unchecked += found["unchecked"]

    def lint(self, known: Known, project: Settled) -> Linted:
        """Return what lint finds in all of it, each finding once."""
        reports, unchecked = [], list(self.unchecked)
        exports = _together(self.exports)
        for each in exports:
            try:
                reports.append(each.lint(project))
            except DefinitionsError as error:
                unchecked.append(f"what {each.tests[0].id} declared: {error}")
        queues = {key for each in exports for key, found in each.items.items() if found.section == "queues"}
        whole = LintReport(
            " and ".join(dict.fromkeys(each.release for each in exports)) or "no release",
            tuple(_once(each for report in reports for each in report.findings)),
            tuple(dict.fromkeys([*_assumed(exports), *(said for report in reports for said in report.assumed)])),
            tuple(dict.fromkeys([*unchecked, *(said for report in reports for said in report.unchecked)])),
            len(queues),
        )
        found = reported(SOURCE, whole, known, project)
        return msgspec.structs.replace(found, with_all=("--dlx-lint-report FILE.json",) * 2)


def _assumed(exports: Collection[Export]) -> Iterator[str]:
    if any(len(each.tests) > 1 for each in exports):
        yield "what different tests declare is on one broker at the same time"
    if len(exports) > 1:
        yield f"tests that differ in an object, a policy or the release have brokers of their own: {len(exports)} here"


def _together(exports: Iterable[Export]) -> list[Export]:
    """Add each of the exports to the first that it agrees with, by the order of the tests' ids."""
    found: list[Export] = []
    for each in sorted(exports, key=lambda export: min(export.tests)):
        first = next((one for one in found if one.agrees_with(each)), None)
        if first is None:
            found.append(each)
        else:
            first.add(each)
    return found


def _once(findings: Iterable[Finding]) -> list[Finding]:
    """Return equal findings as one that has the tests of all."""
    found: dict[tuple[str, ObjectName, str], Finding] = {}
    for each in findings:
        key = each.code, each.about, each.message
        equal = [found.get(key, each), each]
        first = min(equal, key=lambda finding: (not finding.declared_by, finding.declared_by))
        tests = sorted({test for finding in equal for test in finding.declared_by})
        found[key] = msgspec.structs.replace(first, declared_by=tuple(tests))
    return in_order(found.values())


# What is declared on one broker


class _Noted(NamedTuple):
    """An object after a test: its item, how often it was declared and replaced, and the tests that declared it so."""

    item: dict[str, Any]
    times: int = 0
    replaced: int = 0
    tests: tuple[Test, ...] = ()


class Watched:
    """A broker whose declarations are noted, test by test.

    Attributes:
        exports: what it has, or ever had; the last one is of now.
        simulated: true for the simulator.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.exports: list[Export] = []
        self._noted: dict[str, _Noted] = {}
        self.simulated = broker.simulated
        self._recorder = broker.server.run(ApplicationRecorder) if isinstance(broker, SimulatedBroker) else None

    def note(self, test: Test) -> None:
        """Note what the test declared: what was not there after the test before, or was declared again.

        Raises ``OSError`` and ``ManagementError`` where a server does not answer.
        """
        document, declarations = self._of_server() if self._recorder is None else self._of_recorder(self._recorder)
        items: dict[str, Item] = {}
        replaced: list[tuple[str, Item]] = []
        for section, each in _items_of(document):
            key = _key(section, each)
            last, declaration = self._noted.get(key, _Noted({})), declarations.get(key)
            times, replaces = (declaration.times, declaration.replaces) if declaration else (0, [])
            tests = (test,) if each != last.item else last.tests if times == last.times else (*last.tests, test)
            self._noted[key] = _Noted(each, times, len(replaces), tests)
            items[key] = Item(section, each, [*tests])
            olds = (old for old in replaces[last.replaced :] if old != last.item)
            replaced += ((key, Item(section, old, [test])) for old in olds)
        policies = {section: document.get(section, []) for section in _POLICIES}
        now = Export(self._broker.release, document["vhosts"], policies, items, [test])
        for key, old in replaced:
            self.exports.append(msgspec.structs.replace(now, items=items | {key: old}))
        if self.exports and self.exports[-1].agrees_with(now):
            self.exports[-1].add(now)
        else:
            self.exports.append(now)

    def _of_recorder(self, recorder: ApplicationRecorder) -> tuple[dict[str, Any], dict[str, Declaration]]:
        """Return all that was ever declared, as an export and by the key of each object."""
        assert isinstance(self._broker, SimulatedBroker)
        try:
            self._broker.server.run(lambda _: recorder.save())
        except RuntimeError:  # the test stopped the broker, so nothing changes any more
            recorder.save()
        declarations = recorder.recording.declarations
        return recorder.document, {_key(SECTIONS[each.kind], each.item): each for each in declarations}

    def _of_server(self) -> tuple[dict[str, Any], dict[str, Declaration]]:
        """Return what a server exports of the test's virtual host, as if that were the default one."""
        document = self._broker.api("GET", f"definitions/{quote(self._broker.vhost, safe='')}")
        found = {section: [{**each, "vhost": "/"} for each in document.get(section, [])] for section in _SECTIONS}
        return found | {"vhosts": [{"name": "/", **{k: document[k] for k in _OF_VHOST if k in document}}]}, {}


def _items_of(document: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    return ((section, each) for section in SECTIONS.values() for each in document.get(section, []))


def _key(section: str, item: Mapping[str, Any]) -> str:
    name = binding_name(item) if section == "bindings" else item["name"]
    return json.dumps([section, item["vhost"], name])


Unanswered = (OSError, ManagementError)
"""How a server does not say what is declared there."""
