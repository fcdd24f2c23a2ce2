"""What a question returns: rows that a person can read and a test can assert, with what they rest on."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import msgspec

from dlx.nearest_names import suggestion
from simulator.questions.findings import ObjectName
from simulator.scenario.steps import History, to_builtins

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("side", "kind", "vhost", "object", "publish", "path", "fate", "rule")


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One row.

    Attributes:
        about: the object.
        publish: how the message is published, in words; empty where the row is about no message.
        path: the deaths behind it, such as ``orders (rejected) → orders.wait (expired)``.
        fate: what becomes of it, or what is so.
        rule: what decides it: an argument, policy NAME, operator policy NAME, server default, or a rule of RabbitMQ.
        history: steps that show it on a broker, where a message is lost.
        side: ``added`` and ``removed`` tell the rows of a comparison apart; empty without one.
    """

    about: ObjectName
    fate: str
    rule: str
    publish: str = ""
    path: str = ""
    history: History = ()
    side: str = ""

    @property
    def columns(self) -> dict[str, str]:
        """The row by column, without its history."""
        about = {"kind": self.about.kind, "vhost": self.about.vhost, "object": self.about.name}
        rest = {name: getattr(self, name) for name in ("publish", "path", "fate", "rule")}
        return {"side": self.side, **about, **rest}


class Found(msgspec.Struct, frozen=True):
    """What a question found in one snapshot: its rows, what they rest on, and what was not looked at."""

    rows: tuple[Row, ...]
    assumed: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()


class Answer:
    """Rows, and what they rest on.

    Attributes:
        question: the question's name.
        rows: the rows.
        assumed: what has to be so for the answer to hold.
        unchecked: what was not looked at.
    """

    def __init__(self, question: str, found: Found) -> None:
        self.question = question
        self.rows, self.assumed, self.unchecked = found.rows, found.assumed, found.unchecked

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return "\n".join([f"{self.question}: {len(self.rows)} rows", *map(_line, self.rows)])

    def as_json(self) -> dict[str, Any]:
        """Return the answer as plain JSON values, with the histories."""
        rows = [{**row.columns, "history": to_builtins(row.history)} for row in self.rows]
        said = {"assumed": list(self.assumed), "unchecked": list(self.unchecked)}
        return {"question": self.question, "rows": rows, **said}

    def frame(self) -> pd.DataFrame:
        """Return the rows as a pandas data frame, with the column ``history``. Needs the extra ``spark``."""
        import pandas as pd

        rows = [{**row.columns, "history": to_builtins(row.history)} for row in self.rows]
        return pd.DataFrame(rows, columns=[*COLUMNS, "history"])

    def assert_none(self, message: str = "", *, but: Iterable[str] = ()) -> None:
        """Assert that there are no rows, apart from those about the objects ``but``.

        These are names, in which ``*`` is a wildcard. Raises ``AssertionError`` that tells each row, and each name
        in ``but`` that no row is about, with the nearest that one is about; ``TypeError`` for names that are none.
        """
        __tracebackhide__ = True
        exceptions = _names(but)
        rest = [row for row in self.rows if not any(fits(row.about.name) for fits in exceptions.values())]
        told = [message or f"{self.question}: {len(rest)} rows", *map(_line, rest)] if rest else []
        told += [
            f"{self.question}: no row is about {name!r}, which but= names; {_nearest(name, self.rows)}"
            for name, fits in exceptions.items()
            if not any(fits(row.about.name) for row in self.rows)
        ]
        if told:
            raise AssertionError("\n".join(told))

    def _repr_html_(self) -> str:
        """Return a table for notebooks."""
        shown = [name for name in COLUMNS if any(row.columns[name] for row in self.rows)]
        head = "".join(f"<th>{name}</th>" for name in shown)
        body = "".join(
            f"<tr>{''.join(f'<td>{html.escape(row.columns[name])}</td>' for name in shown)}</tr>" for row in self.rows
        )
        said = [*(f"Assumed: {each}" for each in self.assumed), *(f"Not checked: {each}" for each in self.unchecked)]
        notes = "".join(f"<li>{html.escape(each)}</li>" for each in said)
        title = html.escape(f"{self.question}: {len(self.rows)} rows")
        return f"<p><b>{title}</b></p><table><tr>{head}</tr>{body}</table><ul>{notes}</ul>"


def _names(but: Iterable[str]) -> dict[str, Matches]:
    if isinstance(but, str) or not isinstance(but, Iterable):
        raise TypeError(f"but={but!r}: expected names in a list, such as ['orders']")
    return {name: matching(name, "but") for name in but}


def _nearest(name: str, rows: Iterable[Row]) -> str:
    known = {row.about.name for row in rows}
    return suggestion(name, known) if known else "there are no rows"


def _line(row: Row) -> str:
    told = [f"{row.side} " * bool(row.side) + str(row.about), row.publish, row.path, row.fate, row.rule]
    return "  " + ": ".join(part for part in told if part)


def compared(question: str, here: Found, there: Found) -> Answer:
    """Return what is only here (``added``) and what is only there (``removed``)."""
    rows = [msgspec.structs.replace(row, side="added") for row in _only(here, there)]
    rows += [msgspec.structs.replace(row, side="removed") for row in _only(there, here)]
    unchecked = tuple(dict.fromkeys((*here.unchecked, *there.unchecked)))
    return Answer(question, Found(tuple(rows), tuple(dict.fromkeys((*here.assumed, *there.assumed))), unchecked))


def _only(one: Found, other: Found) -> list[Row]:
    """Return the rows that the other side does not have, whatever their histories are."""
    known = {tuple(row.columns.items()) for row in other.rows}
    return [row for row in one.rows if tuple(row.columns.items()) not in known]


Matches = Callable[[str], bool]


def matching(pattern: str | None, parameter: str = "queue") -> Matches:
    """Return a function that tells whether a name fits the pattern, in which ``*`` and ``?`` are wildcards.

    Raises ``TypeError`` that names the parameter for what is no pattern.
    """
    if pattern is not None and not isinstance(pattern, str):
        raise TypeError(f"{parameter}={pattern!r}: expected a name, or a pattern such as 'orders*'")
    return lambda name: pattern is None or fnmatchcase(name, pattern)
