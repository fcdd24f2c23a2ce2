"""The list of faults: ``faults/*.toml``, one file for each subject.

A fault replaces a text that occurs exactly once in its file. The list belongs to the
tree as it is: where a text is gone, the fault has to be rewritten.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

FAULTS = Path(__file__).parent / "faults"


class BadListError(ValueError):
    """The list does not fit itself or the tree; the text names the file and the fault."""


class Fault(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One deliberate fault.

    Attributes:
        name: unique, of small letters and dashes.
        wrong: what is wrong then, in one sentence that a user of RabbitMQ understands.
        file: the file it is in, from the root of the tree.
        text: what is replaced; it occurs exactly once.
        put: what takes its place.
        tests: the test files that should catch it, tried first.
        hangs: whether it makes a test run for ever, so that a timeout counts as caught.
    """

    name: str
    wrong: str
    file: str
    text: str
    put: str
    tests: tuple[str, ...]
    hangs: bool = False

    def applied(self, root: Path) -> str:
        """The whole file with the fault in it. Raises ``BadListError`` where it does not fit."""
        path = root / self.file
        if not path.is_file():
            raise BadListError(f"fault {self.name}: there is no file {self.file}")
        source = path.read_text(encoding="utf-8")
        if (found := source.count(self.text)) != 1:
            raise BadListError(f"fault {self.name}: its text occurs {found} times in {self.file}, not once")
        if self.put == self.text:
            raise BadListError(f"fault {self.name}: put is the same as text, it changes nothing")
        return source.replace(self.text, self.put)


class Subject(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The faults of one file, under the title that they have in docs/evidence/mutants.md."""

    title: str
    fault: tuple[Fault, ...]


def subjects(folder: Path = FAULTS) -> list[Subject]:
    """All faults, by subject. Raises ``BadListError``."""
    found = [_read(path) for path in sorted(folder.glob("*.toml"))]
    names = [fault.name for subject in found for fault in subject.fault]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise BadListError(f"two faults have the name {twice[0]}")
    if not names:
        raise BadListError(f"no faults in {folder}: expected files *.toml")
    return found


def _read(path: Path) -> Subject:
    try:
        return msgspec.toml.decode(path.read_bytes(), type=Subject)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadListError(f"{path.name}: {error}") from error


def check(faults: Iterable[Fault], root: Path) -> None:
    """Raises ``BadListError`` unless every fault fits the tree and its tests are there."""
    for fault in faults:
        fault.applied(root)
        missing = [name for name in fault.tests if not (root / name).exists()]
        if missing or not fault.tests:
            raise BadListError(f"fault {fault.name}: no tests {', '.join(missing) or 'are named'}")
