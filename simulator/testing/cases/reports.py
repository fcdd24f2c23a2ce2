"""Writes what came of cases as JUnit's XML, as CI servers read it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from xml.sax.saxutils import escape, quoteattr

from simulator.testing.cases.running import CaseResult

_UNPRINTABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(results: Sequence[CaseResult]) -> str:
    """Return the document: a suite for each target, a test case for each case there."""
    suites = {target: [each for each in results if each.target == target] for target in _targets(results)}
    parts = [_suite(target, own) for target, own in suites.items()]
    return "\n".join(
        ['<?xml version="1.0" encoding="UTF-8"?>', f"<testsuites{_counts(results)}>", *parts, "</testsuites>", ""]
    )


def _targets(results: Sequence[CaseResult]) -> list[str]:
    return list(dict.fromkeys(each.target for each in results))


def _suite(target: str, results: Sequence[CaseResult]) -> str:
    return "\n".join([f"<testsuite name={_quoted(target)}{_counts(results)}>", *map(_case, results), "</testsuite>"])


def _counts(results: Sequence[CaseResult]) -> str:
    failed = sum(each.status == "failed" for each in results)
    skipped = sum(each.status == "not run" for each in results)
    seconds = sum(each.seconds for each in results)
    return f' tests="{len(results)}" failures="{failed}" skipped="{skipped}" errors="0" time="{seconds:.3f}"'


def _case(result: CaseResult) -> str:
    at = f' file={_quoted(result.source)} line="{result.line}"'
    head = f'<testcase classname={_quoted(result.source)} name={_quoted(result.name)}{at} time="{result.seconds:.3f}"'
    if result.status == "failed":
        text = "\n".join([f"{result.source}:{result.failed_line}", *result.failures, *result.stories])
        inside = f"<failure message={_quoted('; '.join(result.failures))}>{_text(text)}</failure>"
    elif result.status == "not run":
        inside = f"<skipped message={_quoted(result.why_not)}/>"
    elif result.not_checked:
        inside = f"<system-out>{_text('not checked: ' + ', '.join(result.not_checked))}</system-out>"
    else:
        return f"{head}/>"
    return f"{head}>{inside}</testcase>"


def _text(text: str) -> str:
    return escape(_UNPRINTABLE.sub("?", text))


def _quoted(text: str) -> str:
    return quoteattr(_UNPRINTABLE.sub("?", text))


# Writes how far brokers do what a release of RabbitMQ does, as Markdown to read.


_SPECIAL = str.maketrans({each: f"\\{each}" for each in "\\`*_|<>[]"})


def conformance_report(results: Sequence[CaseResult], release: str) -> str:
    """Return the report: for each target what holds by subject, what differs, what was not run and what not checked."""
    targets = dict.fromkeys(each.target for each in results)
    lines = [f"# Compared with RabbitMQ {release}"]
    for target in targets:
        lines += _of_target(target, [each for each in results if each.target == target])
    return "\n".join([*lines, ""])


def _of_target(target: str, results: Sequence[CaseResult]) -> Iterator[str]:
    yield from ("", f"## {_plain(target)}", "")
    yield from ("| Cases | Hold | Differ | Not run |", "|---|---|---|---|")
    for subject in dict.fromkeys(map(_subject, results)):
        yield _row(subject, [each for each in results if _subject(each) == subject])
    yield _row("together", results)
    yield from _differing([each for each in results if each.status == "failed"])
    yield from _not_run([each for each in results if each.status == "not run"])
    yield from _not_checked(results)


def _row(subject: str, results: Sequence[CaseResult]) -> str:
    counts = Counter(each.status for each in results)
    return f"| {_plain(subject)} | {counts['passed']} | {counts['failed']} | {counts['not run']} |"


def _differing(results: Sequence[CaseResult]) -> Iterator[str]:
    if results:
        yield from ("", "### What differs", "")
    for each in results:
        yield f"* {_plain(each.name)} ({_plain(each.source)}:{each.failed_line})"
        yield from (f"    * {_plain(failure)}" for failure in each.failures)


def _not_run(results: Sequence[CaseResult]) -> Iterator[str]:
    if results:
        yield from ("", "### Not run", "")
    for why in dict.fromkeys(each.why_not for each in results):
        yield f"* {_plain(why)}:"
        yield from (f"    * {_plain(each.name)}" for each in results if each.why_not == why)


def _not_checked(results: Sequence[CaseResult]) -> Iterator[str]:
    counts = Counter(what for each in results for what in each.not_checked)
    if counts:
        yield from ("", "### Not checked", "")
    for what, count in counts.items():
        yield f"* {_plain(what)} ({count} cases)" if count > 1 else f"* {_plain(what)} (1 case)"


def _subject(result: CaseResult) -> str:
    return PurePath(result.source).stem


def _plain(text: str) -> str:
    return text.translate(_SPECIAL)
