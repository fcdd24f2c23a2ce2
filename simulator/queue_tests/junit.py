"""Writes what came of cases as JUnit's XML, as CI servers read it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.sax.saxutils import escape, quoteattr

from simulator.queue_tests.running import CaseResult

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
