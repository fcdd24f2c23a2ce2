"""The parts of the documents that come from the code: the columns of a capture, and the release matrix.

    python docs/generate.py           write them
    python docs/generate.py --check   exit with 1 when one is stale, naming it

A part stands in its document between ``<!-- generated: NAME -->`` and ``<!-- end -->``.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from dlx.releases import RELEASES, TABLE, VERSIONS, Row
from simulator.capture.schema import COLUMNS, SCHEMA_VERSION
from simulator.files import write_whole

DOCS = Path(__file__).parent


def columns() -> str:
    """The columns of a capture."""
    rows = [(f"`{name}`", f"`{_type(kind)}`", "yes" if nullable else "", doc) for name, kind, nullable, doc in COLUMNS]
    return f"Version {SCHEMA_VERSION} of the schema.\n\n" + _table(("Column", "Type", "Null?", "Holds"), rows)


def matrix() -> str:
    """Each behaviour with its value in each release."""
    head = ("Behaviour", *(f"{name} ({VERSIONS[name]})" for name in RELEASES))
    return _table(head, [(f"`{row.name}`", *map(_value, row.values)) for row in TABLE if not _of_sets(row)])


def sets() -> str:
    """The behaviours whose value is a set: what it holds, and in which releases."""
    parts = []
    for row in filter(_of_sets, TABLE):
        members = sorted(frozenset().union(*row.values))
        rows = [(f"`{member}`", *("×" if member in held else "" for held in row.values)) for member in members]
        parts.append(f"### {row.name}\n\n{row.meaning}\n\n" + _table((row.name, *RELEASES), rows))
    return "\n\n".join(parts)


def evidence() -> str:
    """What each behaviour decides, and how its values are known."""
    rows = [(f"`{row.name}`", row.meaning, row.evidence) for row in TABLE]
    return _table(("Behaviour", "What it decides", "Evidence"), rows)


PARTS: dict[str, dict[str, Callable[[], str]]] = {
    "capture.md": {"columns": columns},
    "releases.md": {"matrix": matrix, "sets": sets, "evidence": evidence},
}


def generated(document: str, text: str) -> str:
    """The document's text with its parts made anew. Raises ``ValueError`` where a part's place is missing."""
    for name, make in PARTS[document].items():
        place = re.compile(rf"(<!-- generated: {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        if not place.search(text):
            raise ValueError(f"{document}: no place for {name}: <!-- generated: {name} --> … <!-- end -->")
        part = f"\n{make()}\n\n"
        text = place.sub(lambda found, part=part: found[1] + part + found[2], text)
    return text


def stale() -> list[str]:
    """The documents that differ from what the code says."""
    texts = {document: (DOCS / document).read_text(encoding="utf-8") for document in PARTS}
    return [document for document, text in texts.items() if generated(document, text) != text]


def _of_sets(row: Row) -> bool:
    return isinstance(row.values[0], frozenset)


def _type(kind: Any) -> str:
    return str(kind).replace("element: ", "")


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return "none" if value is None else str(value)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def main() -> int:
    """Write or check; the exit code."""
    parser = argparse.ArgumentParser(description="Write the generated parts of the documents.")
    parser.add_argument("--check", action="store_true", help="only say which documents are stale")
    documents = stale()
    if parser.parse_args().check:
        for document in documents:
            print(f"docs/{document} is stale: run python docs/generate.py", file=sys.stderr)
        return 1 if documents else 0
    for document in documents:
        path = DOCS / document
        text = generated(document, path.read_text(encoding="utf-8"))
        write_whole(path, text)
        print(f"docs/{document}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
