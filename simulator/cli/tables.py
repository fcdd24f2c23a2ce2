"""Tables on a terminal that break lines between words only: the last columns give way first.

``together`` makes one word of several, such as a number and its unit.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from simulator.cli.lines import print_without_padding

Cell = str | Text
_GAPS = (2, 1)
_GLUE = "\u00a0"


def together(text: str) -> str:
    """Return a text that no line of a table is broken in."""
    return text.replace(" ", _GLUE)


def show(console: Console, titles: Sequence[str], rows: Iterable[Sequence[Cell]]) -> None:
    """Print a table that leaves a first cell blank where it repeats the cell above.

    A terminal that is too narrow for the longest words gets lines that are longer than it is wide.
    """
    shown = [[_text(cell) for cell in row] for row in rows]
    columns = list(zip(map(Text, titles), *shown, strict=True))
    widths, gap = _fitting(columns, console.width)
    built = Table(box=None, padding=(0, gap, 0, 0), pad_edge=False)
    for title, width in zip(titles, widths, strict=True):
        built.add_column(title, width=width)
    before = ""
    for first, *others in shown:
        cells = (Text("") if first.plain == before else first, *others)
        built.add_row(*(_broken(cell, width) for cell, width in zip(cells, widths, strict=True)))
        before = first.plain
    # Rendered here: print() makes no table wider than the terminal.
    wide = console.options.update(width=max(console.width, sum(widths) + gap * len(widths)))
    print_without_padding(console, built, wide)


def _fitting(columns: Sequence[Sequence[Text]], room: int) -> tuple[list[int], int]:
    """Return the widths of the columns, and the gap between them: rather a narrow gap than several broken columns."""
    for broken in (1, len(columns)):
        for gap in _GAPS:
            gaps = gap * (len(columns) - 1)
            widths = _widths(columns, room - gaps, broken)
            if sum(widths) + gaps <= room:
                return widths, gap
    return widths, gap


def _widths(columns: Sequence[Sequence[Text]], room: int, broken: int) -> list[int]:
    """Return the width of each column: that of its longest line; of the last ones down to that of its longest word."""
    widths = [max(cell_len(line) for cell in cells for line in cell.plain.split("\n")) for cells in columns]
    for number in reversed(range(len(columns) - broken, len(columns))):
        least = max((cell_len(word) for cell in columns[number] for word in _words(cell.plain)), default=0)
        widths[number] = max(least, widths[number] - max(0, sum(widths) - room))
    return widths


def _text(cell: Cell) -> Text:
    # As a text: rich takes brackets in a string for markup.
    return Text(cell) if isinstance(cell, str) else cell


def _words(text: str) -> list[str]:
    return [word for line in text.split("\n") for word in line.split(" ")]


def _broken(cell: Text, width: int) -> Text:
    """Return the cell with its lines broken where words are kept together; the others are left to rich."""
    if _GLUE not in cell.plain:
        return cell
    lines = (
        textwrap.wrap(line, width, break_long_words=False, break_on_hyphens=False) for line in cell.plain.split("\n")
    )
    return Text("\n".join(each for line in lines for each in line).replace(_GLUE, " "), cell.style)


# Times in a table: one unit for a whole column.


_UNITS = ((3_600_000, "h"), (60_000, "min"), (1_000, "s"), (1, "ms"))
_HUNDREDTHS_S = 10


def column_of_times(times_ms: Iterable[float]) -> Callable[[float], str]:
    """Return what writes each time of a column, milliseconds.

    The unit is the largest in which all are whole; else seconds, if two decimals are exact, and milliseconds if not.
    """
    given = list(times_ms)
    whole = [(size, unit) for size, unit in _UNITS if all(not ms % size for ms in given)]
    size, unit = whole[0] if whole and any(given) else (1_000, "s")
    if unit == "ms" and all(not ms % _HUNDREDTHS_S for ms in given):
        size, unit = 1_000, "s"
    elif not whole:
        size, unit = 1, "ms"
    return lambda ms: f"{_plain(ms / size)} {unit}"


def _plain(number: float) -> str:
    return f"{round(number, 3):,}".removesuffix(".0")
