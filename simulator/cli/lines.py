"""Prints for people without blanks at the ends of lines, which no terminal shows and every file keeps."""

from __future__ import annotations

from rich.console import Console, ConsoleOptions, RenderableType
from rich.padding import Padding
from rich.segment import Segment, Segments
from rich.text import Text


def print_indented(console: Console, line: Text, indent: int) -> None:
    """Print a line that is broken between words where it is too long, each part with the indent."""
    if line.plain:
        print_without_padding(console, Padding(line, (0, 0, 0, indent), expand=False))
    else:
        console.print()


def print_without_padding(console: Console, what: RenderableType, options: ConsoleOptions | None = None) -> None:
    """Print what rich pads to the width of the terminal; ``options`` may have another width."""
    segments: list[Segment] = []
    for line in console.render_lines(what, options, pad=False):
        segments += [*_stripped(line), Segment.line()]
    console.print(Segments(segments), crop=False)


def _stripped(line: list[Segment]) -> list[Segment]:
    """Return the parts of a line up to the last one that is more than blanks."""
    while line and not line[-1].text.strip():
        line = line[:-1]
    return [*line[:-1], Segment(line[-1].text.rstrip(), *line[-1][1:])] if line else []
