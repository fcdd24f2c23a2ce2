"""Writes how far brokers do what a release of RabbitMQ does, as Markdown to read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import PurePath

from simulator.queue_tests.running import CaseResult

_SPECIAL = str.maketrans({each: f"\\{each}" for each in "\\`*_|<>[]"})


def conformance_report(results: Sequence[CaseResult], release: str) -> str:
    """Return the report: for each target what holds by subject, what differs, what was not run and what not checked."""
    targets = dict.fromkeys(each.target for each in results)
    lines = [f"# Held to RabbitMQ {release}"]
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
