"""Numbers for signatures, and templates that leave out what makes no difference.

Messages with a random expiration each (a retry with jitter), or with an order's number
in their routing keys, would make every signature unique. No rule depends on how
many milliseconds an expiration has, and no binding distinguishes most keys; it only matters
whether two are the same. So a signature is a template and the values in it, expirations
and keys, and two messages are alike when their templates are and their values repeat
alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from simulator.replay.checks.path_times import NO_TTL
from simulator.replay.rows.columns import alike_rows, firsts, places_of
from simulator.replay.rows.row_codec import read_vhost, without_expirations, without_keys
from simulator.replay.search.visible_state import CaptureRow, row_of

SIGNATURES_MAX = 200_000
"""Signatures remembered between batches."""
DIGITS_MAX = 12
"""Digits of the longest expiration that RabbitMQ takes, in milliseconds."""

Ints = npt.NDArray[np.int32]


NumberOfKeyOf = Callable[[str], Callable[[str], int | None] | None]
"""Returns what numbers the routing keys of a virtual host: the same for keys that nothing distinguishes, ``None``
for one that is unlike all others. Returns ``None`` where all are unlike."""


class Signatures:
    """The signatures seen, each with its number, its template's number and its values."""

    def __init__(self, number_of_key_of: NumberOfKeyOf) -> None:
        self._number_of_key_of = number_of_key_of
        self._numbers: dict[str, int] = {}
        self._texts: list[str] = []
        self._templates: dict[str, int] = {}
        self._template_of: list[int] = []
        self._values: list[tuple[str, ...]] = []
        self._has_values: list[bool] = []
        self._expiration_us: list[int] = []
        self._examples: list[CaptureRow] = []
        self._rows: dict[int, CaptureRow] = {}

    def numbers(self, signatures: Iterable[str]) -> Ints:
        """Return the number of each signature; new ones get the next."""
        known = self._numbers
        return np.array([known[text] if text in known else self._add(text) for text in signatures], np.int32)

    def of(self, column: Any) -> Ints:
        """Return the number of the signature in each row of a column."""
        encoded = column.dictionary_encode()  # if it is not yet
        known = self.numbers(encoded.dictionary.to_pylist())
        numbers: Ints = known[encoded.indices.to_numpy(zero_copy_only=False)]
        return numbers

    def templates(self, numbers: Ints) -> Ints:
        """Return the template of each number."""
        return np.array(self._template_of, dtype=np.int32)[numbers]

    def having_values(self, numbers: Ints) -> npt.NDArray[np.bool_]:
        """Say which of the numbers belong to a signature with values that its template leaves out."""
        return np.array(self._has_values, dtype=bool)[numbers]

    def expirations_us(self, numbers: Ints) -> npt.NDArray[np.int64]:
        """Return the expiration of the message itself by number, ``NO_TTL`` where it has none."""
        known = self._expiration_us
        return np.array([known[number] for number in numbers.tolist()], np.int64)

    def values(self, numbers: Ints) -> list[tuple[str, ...]]:
        """Return what the templates leave out of signatures: expirations, then keys."""
        return [self._values[number] for number in numbers.tolist()]

    def numbered_values(self, numbers: Ints) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the ``values`` of signatures as numbers, one signature's after the other's, and how many each has.

        Equal values have the same number, in this answer.
        """
        which = alike_rows(numbers)
        several = self.values(numbers[firsts(which)])
        counts = np.array([len(each) for each in several], np.int64)
        known: dict[str, int] = {}
        flat = np.array([known.setdefault(value, len(known)) for each in several for value in each], np.int64)
        places, _ = places_of((np.cumsum(counts) - counts)[which], counts[which])
        return flat[places], counts[which]

    def row(self, number: int) -> CaptureRow:
        """Return the signature's row."""
        if number not in self._rows:
            self._rows[number] = row_of(self._texts[number])
        return self._rows[number]

    def example_of(self, number: int) -> CaptureRow:
        """Return the example of the signature's template."""
        return self._examples[self._template_of[number]]

    def kind(self, number: int) -> tuple[int, tuple[int, ...]]:
        """Return the template of a signature and how its values repeat: what entries a publish has depends on."""
        values = self._values[number]
        return self._template_of[number], tuple(values.index(value) for value in values)

    def example(self, template: int) -> CaptureRow:
        """Return a row of that template; all of them have the same event, virtual host, queue and exchange."""
        return self._examples[template]

    def vhosts(self) -> list[str]:
        """Return the virtual host of each template."""
        return [example.vhost for example in self._examples]

    def forget(self) -> None:
        """Drop the signatures when they have become too many; the templates stay."""
        if len(self._numbers) > SIGNATURES_MAX:
            self._numbers.clear()
            self._rows.clear()
            for kept in (self._texts, self._template_of, self._values, self._has_values):
                kept.clear()
            self._expiration_us.clear()

    @property
    def template_count(self) -> int:
        """How many templates there are."""
        return len(self._examples)

    def _add(self, text: str) -> int:
        number = self._numbers[text] = len(self._texts)
        self._texts.append(text)
        template, own, of_deaths = without_expirations(text)
        values = of_deaths if own is None else (own, *of_deaths)
        number_of_key = self._number_of_key_of(read_vhost(text))
        if number_of_key is not None:
            template, keys = without_keys(template, number_of_key)
            values = (*values, *keys)
        if template not in self._templates:
            self._templates[template] = len(self._examples)
            self._rows[number] = row_of(text)
            self._examples.append(self._rows[number])
        self._template_of.append(self._templates[template])
        self._values.append(values)
        self._has_values.append(bool(values))
        example = self._examples[self._templates[template]]
        self._expiration_us.append(_microseconds(example.visible.expiration if own is None else own))
        return number


def _microseconds(expiration: str | None) -> int:
    """Return an expiration in microseconds, ``NO_TTL`` if it is not a number."""
    if expiration is None or len(expiration) > DIGITS_MAX or not (expiration.isascii() and expiration.isdecimal()):
        return NO_TTL
    return int(expiration) * 1000
