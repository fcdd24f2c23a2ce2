"""What a reader is given, a document of a file, and what it yields: objects of an export, and remarks."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import msgspec

from dlx.nearest_names import suggestion
from simulator.definitions import DefinitionsError, Place
from simulator.definitions.places import Path, printable


class Defined(msgspec.Struct, frozen=True):
    """An item of a section of an export, and where its file defines it.

    ``kubernetes`` is the namespace and name of the object of Kubernetes that defines it, if one does.
    """

    section: str
    item: dict[str, Any]
    place: Place
    kubernetes: tuple[str, str] | None = None


class Exported(msgspec.Struct, frozen=True):
    """The version of the server that exported a document, such as ``4.0.5``."""

    version: str


class Remark(msgspec.Struct, frozen=True):
    """What a reader left out or assumed, in a sentence. ``assumes``: answers rest on it."""

    text: str
    assumes: bool = False


class Empty(Remark, frozen=True):
    """That a document of the kind that a reader reads rightly defines nothing."""


Found = Defined | Exported | Remark


class Document:
    """A document of a file: plain JSON values, and the line of each.

    Attributes:
        file: the name of its file.
        number: which one it is, counted from 1, where the file has several.
        value: the document.
        data: the text of the file.
        address: what its tool calls it, if it does.
        blocks: for each string that stands as it is on lines of its own (a literal block), the first of them.
        repeated: the keys that an object has twice, with the line of the second.
    """

    def __init__(
        self,
        file: str,
        number: int | None,
        value: Any,
        lines: Callable[[], Mapping[Path, int]],
        data: bytes = b"",
        blocks: Mapping[Path, int] | None = None,
        repeated: Mapping[Path, int] | None = None,
        root: Path = (),
        address: str | msgspec.UnsetType = msgspec.UNSET,
    ) -> None:
        """``lines`` returns the line of each value, by the path from the root of the text's own document."""
        self.file, self.number, self.value, self.data = printable(file), number, value, data
        self.blocks, self.repeated = blocks or {}, repeated or {}
        self._find_lines, self._root, self.address = lines, root, address

    @cached_property
    def _lines(self) -> Mapping[Path, int]:
        return self._find_lines()

    def place(self, *path: str | int) -> Place:
        """Return where a value stands; of one that is missing, what would have it."""
        whole = (*self._root, *path)
        while whole not in self._lines and whole:
            whole = whole[:-1]
        return Place(self.file, self._lines.get(whole, 1), self.number, self.address)

    def block(self, *path: str | int) -> Place | None:
        """Return where the first line of a string stands, if each line of it has one of its own."""
        line = self.blocks.get((*self._root, *path))
        return None if line is None else Place(self.file, line, self.number)

    def error(self, path: Sequence[str | int], problem: str) -> DefinitionsError:
        """Return the error that says what is wrong with a value, or with the lack of one."""
        return DefinitionsError(str(self.place(*path)), shown_path(path), problem)

    def check_keys(self) -> None:
        """Raise ``DefinitionsError`` for an object with a key twice: programs differ in which one they take."""
        for path, line in self.repeated.items():
            if path[: len(self._root)] == self._root:
                place = Place(self.file, line, self.number)
                where = shown_path(path[len(self._root) :])
                raise DefinitionsError(str(place), where, "the key is there twice; kubectl refuses that. Keep one")

    def unknown(self, path: Sequence[str | int], known: Iterable[str]) -> DefinitionsError:
        """Return the error for a field that nobody knows, with the nearest that is known."""
        return self.error(path, f"unknown field; {suggestion(str(path[-1]), known)}")

    def items(self) -> Iterator[Document]:
        """Yield the documents in a list of Kubernetes, such as ``kind: List``, or the document itself."""
        value = self.value
        if not (
            isinstance(value, dict) and str(value.get("kind")).endswith("List") and isinstance(value.get("items"), list)
        ):
            yield self
            return
        for index, each in enumerate(value["items"]):
            yield from self.part(("items", index), each).items()

    def part(self, path: Path, value: Any, address: str | msgspec.UnsetType = msgspec.UNSET) -> Document:
        """Return a value in the document as one of its own; paths in errors begin there."""
        root = (*self._root, *path)
        return Document(
            self.file, self.number, value, lambda: self._lines, self.data, self.blocks, self.repeated, root, address
        )

    def values(self) -> Iterator[tuple[Path, Any]]:
        """Yield each value with the path to it, those above before those below."""
        pending: deque[tuple[Path, Any]] = deque([((), self.value)])
        while pending:
            path, value = pending.popleft()
            yield path, value
            if isinstance(value, dict):
                pending += [((*path, name), each) for name, each in value.items()]
            elif isinstance(value, list):
                pending += [((*path, at), each) for at, each in enumerate(value)]


class Reader(msgspec.Struct, frozen=True):
    """Reads one kind of document.

    Attributes:
        what: what it reads, in words.
        recognises: whether a document is of its kind, by what is in it.
        read: yields what the documents of its kind define, all at once since some refer to others. Raises
            ``DefinitionsError`` with the place, the field and what would be right.
        is_imported: whether servers import what it reads, all at once.
    """

    what: str
    recognises: Callable[[Document], bool]
    read: Callable[[Sequence[Document]], Iterator[Found]]
    is_imported: bool = False


def shown_path(path: Iterable[str | int]) -> str:
    """Return a path as people write it: ``spec.tags[1]``."""
    parts = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in path]
    return "".join(parts).removeprefix(".")
