"""``dlx lint`` of files that are no definitions of RabbitMQ: findings by line and column, for people and machines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import msgspec


class Placed(msgspec.Struct, frozen=True):
    """One finding: its place in the file, from line 1 and column 1, whether it is an error, and what it says."""

    line: int
    column: int
    severity: str
    message: str


class LintedFile(msgspec.Struct, frozen=True):
    """What lint found in a file.

    Attributes:
        source: its name.
        system: whose file it is, as ``dlx simulate`` names it.
        counted: the kind of thing that was read, in the plural, and how many there were.
        whose: the system in words.
        findings: from the top of the file down.
        assumed, unchecked: what the answer rests on.
    """

    source: str
    system: str
    counted: tuple[str, int]
    whose: str
    findings: tuple[Placed, ...]
    assumed: tuple[str, ...]
    unchecked: tuple[str, ...]


def _text(reports: Sequence[LintedFile]) -> str:
    lines: list[str] = []
    for each in reports:
        lines += [
            f"{found.severity} {each.source}: line {found.line}, column {found.column}: {found.message}"
            for found in each.findings
        ]
        things, count = each.counted
        lines.append(f"{each.source}: {_sum(each.findings)} in {_number(count, things)} of {each.whose}")
    for said in dict.fromkeys(f"Assumed: {text}" for each in reports for text in each.assumed):
        lines.append(said)
    for said in dict.fromkeys(f"Not checked: {text}" for each in reports for text in each.unchecked):
        lines.append(said)
    return "".join(f"{line}\n" for line in lines)


def _sum(findings: Sequence[Placed]) -> str:
    counts = Counter(each.severity for each in findings)
    return ", ".join(_number(counts[each], f"{each}s") for each in sorted(counts)) or "no findings"


def _number(count: int, things: str) -> str:
    one = f"{things[:-3]}y" if things.endswith("ies") else things[:-1]
    return f"{count} {one if count == 1 else things}"


def _json(reports: Sequence[LintedFile]) -> str:
    documents = [
        {
            "source": each.source,
            "system": each.system,
            each.counted[0]: each.counted[1],
            "findings": msgspec.to_builtins(each.findings),
            "assumed": each.assumed,
            "unchecked": each.unchecked,
        }
        for each in reports
    ]
    return msgspec.json.encode(documents[0] if len(documents) == 1 else {"reports": documents}).decode() + "\n"


def _github(reports: Sequence[LintedFile]) -> str:
    return "".join(
        f"::{found.severity} file={each.source},line={found.line},col={found.column},title={each.system}"
        f"::{found.message}\n"
        for each in reports
        for found in each.findings
    )


PLACED_FORMATS: Mapping[str, Callable[[Sequence[LintedFile]], str]] = {"text": _text, "json": _json, "github": _github}
"""Return the text of reports, with its last newline."""
