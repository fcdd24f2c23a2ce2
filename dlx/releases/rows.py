"""The rows of a release table: what changed when, and how that is known.

A subject is a class whose body holds rows, each a behaviour under its name and type::

    class Messages:
        client_deaths_continued: bool = since(
            "4.0", False, before=True,
            meaning="An x-death header that a client publishes is counted on.",
            evidence="live; release notes of 4.0.1",
        )

Read on the class, the name is the row; read on a release derived from the class, it is
the value in that release. A change is dated by the first release in which it was found,
or by an exact version such as ``4.3.5`` where the evidence shows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

import msgspec

from dlx.releases.versions import RELEASES, VERSIONS, ReleaseName, numbers

T = TypeVar("T")


class Row(msgspec.Struct, frozen=True):
    """One behaviour: what it decides, its value at first and after each change, and how that is known.

    ``undecided`` names the releases for which nothing decides between the value that they
    have here, which is that of the release before, and the next one.
    """

    name: str
    meaning: str
    evidence: str
    before: Any
    changes: tuple[tuple[str, Any], ...]
    undecided: tuple[str, ...] = ()

    def value_in(self, version: str) -> Any:
        """Return the value in a full version such as ``4.0.5``: that of the latest change until then."""
        asked = numbers(version)
        return next((value for date, value in reversed(self.changes) if numbers(date) <= asked), self.before)

    @property
    def values(self) -> tuple[Any, ...]:
        """The value in each of ``RELEASES``."""
        return tuple(self.value_in(VERSIONS[name]) for name in RELEASES)

    def dates_between(self, one: str, other: str) -> tuple[str, ...]:
        """Return the dates of the changes that lie between two versions, whichever is the older."""
        older, newer = sorted((numbers(one), numbers(other)))
        return tuple(date for date, _ in self.changes if older < numbers(date) <= newer)


def since(
    date: str, value: T, *, before: T, meaning: str, evidence: str, undecided: tuple[ReleaseName, ...] = ()
) -> T:
    """Return a row with one change: ``value`` from the release or version ``date`` on, ``before`` until then."""
    return changed({date: value}, before=before, meaning=meaning, evidence=evidence, undecided=undecided)


def changed(
    values: Mapping[str, T], *, before: T, meaning: str, evidence: str, undecided: tuple[ReleaseName, ...] = ()
) -> T:
    """Return a row with several changes: each value holds from its release or version on, the oldest first."""
    row = Row("", meaning, evidence, before, tuple(values.items()), undecided)
    return cast("T", row)  # a release derived from the row's class does have a value of type T there


def rows_of(*subjects: type) -> tuple[Row, ...]:
    """Return the rows in the bodies of these classes, in the order in which they stand."""
    return tuple(
        msgspec.structs.replace(row, name=name)
        for subject in subjects
        for name, row in vars(subject).items()
        if isinstance(row, Row)
    )


def subjects_of(derived: type) -> tuple[type, ...]:
    """Return the subjects that a class is derived from, as its statement lists them."""
    return tuple(each for each in derived.__mro__ if any(isinstance(value, Row) for value in vars(each).values()))


def with_behaviours(cls: type[T]) -> type[T]:
    """Give a frozen, keyword-only struct that lists subjects as its bases a field for each of their rows."""
    fields = [(row.name, Any) for row in rows_of(*subjects_of(cls))]
    namespace = {"__doc__": cls.__doc__, "__qualname__": cls.__qualname__}
    derived = msgspec.defstruct(
        cls.__name__,
        fields,
        bases=(cast("type[msgspec.Struct]", cls),),
        module=cls.__module__,
        namespace=namespace,
        frozen=True,
        kw_only=True,
    )
    return cast("type[T]", derived)
