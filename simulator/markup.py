"""HTML in small pieces: text is escaped unless it says that it is HTML."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from importlib import import_module

DRAWN_BY: dict[str, str] = {}
"""For classes whose pictures take more than they know themselves, the function that draws one, ``module:function``."""


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def text(value: object) -> Html:
    """Return the value as HTML."""
    return value if isinstance(value, Html) else Html(html.escape(str(value)))


def join(parts: Iterable[object], between: str = "") -> Html:
    """Return the parts, one after the other."""
    return Html(between.join(text(part) for part in parts))


def drawn(value: object) -> str:
    """Return the picture of a value, by the function that ``DRAWN_BY`` names for its class."""
    module, _, name = DRAWN_BY[type(value).__name__].partition(":")
    picture: str = getattr(import_module(module), name)(value)
    return picture


def element(name: str, /, *content: object, **attributes: object) -> Html:
    """Return an element; ``class_`` is its class, ``None`` leaves an attribute out."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Html(f"<{name}{given}>{join(content)}</{name}>")


def number(value: int) -> str:
    """Format a count for people."""
    return f"{value:,}"


def plural(count: int, one: str, many: str = "") -> str:
    """Return a count with its noun."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def table(heads: Sequence[object], rows: Iterable[Sequence[object]]) -> Html:
    """Return a table with columns of integers aligned to the right."""
    body = list(rows)
    right = [bool(body) and isinstance(body[0][column], int) for column in range(len(heads))]
    head = join(element("th", name, class_="n" if n else None) for name, n in zip(heads, right, strict=True))
    lines = join(element("tr", *map(_cell, row)) for row in body)
    return element("table", element("thead", element("tr", head)), element("tbody", lines))


def _cell(value: object) -> Html:
    if isinstance(value, int):
        return element("td", number(value), class_="n")
    if isinstance(value, Html) and value.startswith("<td"):
        return value
    return element("td", value)


def details(summary: object, content: object) -> Html:
    """Return content that a click shows."""
    return element("details", element("summary", summary), content)


def section(title: str, *content: object, id_: str) -> Html:
    """Return a section of the page."""
    return element("section", element("h2", title), *content, id=id_)
