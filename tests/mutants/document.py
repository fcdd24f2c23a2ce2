"""docs/evidence/mutants.md: the faults, and the tests that caught them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tests.mutants.listed import Subject
from tests.mutants.trial import Result

HEAD = """\
# Deliberate faults

Do the tests notice when a rule is wrong? Each fault below is a mistake that a maintainer could make. The runner puts
one fault at a time into a copy of the tree, and runs the tests there until one fails. A fault that no test notices is
a hole in the tests.

    make mutants                                   # all, two at a time; five to ten minutes
    python -m tests.mutants cycle-by-reason        # one, by its name
    python -m tests.mutants --json                 # for machines
    python -m tests.mutants --write-docs           # all, and write this document

First the tree must pass the same tests without a fault, or a failure would prove nothing. For each fault, its own
tests run first, then all of `tests/rules`, the stores and the recorded answers of real servers. A run that does not
end counts as caught only for a fault that says so. Exit codes: 0, all faults were caught; 1, some were not; 64, wrong
usage; 65, the list does not fit the tree, or the tree fails without a fault.

`tests/mutants/faults/` holds the list, one file for each subject; add new faults there. The last command writes this
document. `tests/mutants/test_list.py` checks that it names exactly the faults of the list, and that each still fits
the tree.
"""
COLUMNS = ("Fault", "What is wrong then", "In", "Caught by")


def document(subjects: Sequence[Subject], results: Iterable[Result], unmutated: int) -> str:
    """The whole document; ``unmutated`` tests pass without a fault."""
    by_name = {result.fault.name: result for result in results}
    caught = sum(result.good for result in by_name.values())
    files = {result.fault.file for result in by_name.values()}
    rules = sum(result.fault.file.startswith("dlx/") for result in by_name.values())
    counts = (
        f"{len(by_name)} faults in {len(files)} files: {rules} in the rules (`dlx/`), {len(by_name) - rules} in the"
        f" broker (`simulator/`). {caught} are caught. Without a fault {unmutated:,} tests pass.\n"
    )
    return "\n".join([HEAD, counts, *(_section(subject, by_name) for subject in subjects)])


def _section(subject: Subject, by_name: Mapping[str, Result]) -> str:
    lines: list[Sequence[str]] = [COLUMNS, ["---"] * len(COLUMNS)]
    for fault in subject.fault:
        result = by_name[fault.name]
        lines.append((f"`{fault.name}`", fault.wrong, f"`{fault.file}`", _caught_by(result)))
    table = "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
    return f"## {subject.title}\n\n{table}\n"


def _caught_by(result: Result) -> str:
    if not result.good:
        return "**nothing**"
    return f"`{result.by}`" + (", which does not end" if result.outcome == "hung" else "")


def rows(text: str) -> list[tuple[str, str, str, str]]:
    """Name, sentence, file and last cell of every fault in a document's text."""
    found = []
    for line in text.splitlines():
        cells = line.replace("\\|", "\0").strip("|").split("|")
        if line.startswith("| `") and len(cells) == len(COLUMNS):
            name, wrong, file, by = (cell.replace("\0", "|").strip() for cell in cells)
            found.append((name.strip("`"), wrong, file.strip("`"), by))
    return found
