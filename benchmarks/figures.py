"""The figures of docs/evidence/performance.md: what a benchmark gives, and the table that shows them."""

from __future__ import annotations

from dataclasses import astuple, dataclass

HEAD = "| Measured | Aim | Found | By |\n|---|---|---|---|\n"
BEGIN, END = "<!-- python -m benchmarks writes from here -->\n", "<!-- to here -->\n"


@dataclass(frozen=True)
class Figure:
    """A row of the table: what was measured, the aim, what was found, and the command that measures it."""

    what: str
    aim: str
    found: str
    command: str

    def __str__(self) -> str:
        return f"{self.what}: {self.found}" + (f" (aim: {self.aim})" if self.aim else "")


def show(figures: list[Figure]) -> None:
    """Print a line for each."""
    for figure in figures:
        print(figure, flush=True)


def with_figures(document: str, figures: list[Figure], last_run: str) -> str:
    """The document with these figures in its table, each in the row that measures the same or in a new one.

    Raises ``ValueError`` where a mark is missing.
    """
    before, begin, rest = document.partition(BEGIN)
    table, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the table must stand between {BEGIN.strip()} and {END.strip()}")
    rows = {row.what: row for row in rows_of(table)} | {figure.what: figure for figure in figures}
    lines = "".join(f"| {' | '.join(astuple(row))} |\n" for row in rows.values())
    return f"{before}{begin}\n{HEAD}{lines}\n{last_run}\n\n{end}{after}"


def rows_of(table: str) -> list[Figure]:
    """The rows below the head of a table."""
    lines = [line for line in table.splitlines() if line.startswith("|")][2:]
    return [Figure(*(cell.strip() for cell in line.strip("|").split("|"))) for line in lines]
