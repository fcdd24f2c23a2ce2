"""A lint rule: its code, its name, its document, and the function that finds what it is about.

The document is the function's docstring: what the rule reports in the first paragraph, then
sections that begin with ``Why``, ``Example`` and ``Fix``. The command line, the
catalogue in ``docs/how-to/lint.md`` and SARIF take it from here.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable

import msgspec

from simulator.questions.findings import Finding, Fix, ObjectName, Severity
from simulator.questions.lint_rules.subject import Subject
from simulator.scenario.steps import History

SECTIONS = ("Why", "Example", "Fix")


class Document(msgspec.Struct, frozen=True):
    """What a person has to know of a rule, in plain text."""

    what: str
    why: str
    example: str
    fix: str


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What a rule's function yields: a finding without the rule's code and name."""

    severity: Severity
    about: ObjectName
    message: str
    because: str
    fix: Fix
    history: History = ()


Check = Callable[[Subject], Iterable[Found]]


class LintRule(msgspec.Struct, frozen=True):
    """A rule. Its code and its name belong together and are never used for another rule."""

    code: str
    name: str
    document: Document
    check: Check

    def findings(self, subject: Subject) -> Iterable[Finding]:
        """Yield what the rule finds."""
        for found in self.check(subject):
            fields = {field: getattr(found, field) for field in Found.__struct_fields__}
            yield Finding(code=self.code, name=self.name, **fields)


RULES: dict[str, LintRule] = {}
"""The rules by code."""


def rule(code: str, name: str) -> Callable[[Check], Check]:
    """Return the decorator that makes a function a rule. Its docstring is the rule's document."""

    def add(check: Check) -> Check:
        taken = code in RULES or any(each.name == name for each in RULES.values())
        if taken:
            raise ValueError(f"{code} {name}: the code or the name belongs to another rule")
        RULES[code] = LintRule(code, name, _document(inspect.getdoc(check) or "", code), check)
        return check

    return add


def _document(text: str, code: str) -> Document:
    parts: dict[str, list[str]] = {"What": []}
    current = parts["What"]
    for line in text.splitlines():
        title, colon, rest = line.partition(":")
        if colon and title in SECTIONS:
            current = parts[title] = [rest.strip()]
        else:
            current.append(line)
    if set(parts) != {"What", *SECTIONS}:
        raise ValueError(f"{code}: its docstring has {', '.join(parts)}; expected {', '.join(SECTIONS)}")
    what, why, example, fix = ("\n".join(lines).strip() for lines in parts.values())
    return Document(what, why, example, fix)
