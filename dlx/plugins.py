"""Finds what other distributions add to dlx: systems, adapters of ``dlx compare``, releases.

A distribution adds something by an entry point (``importlib.metadata``), in a group that
is named after what it adds, such as ``dlx.systems``. Nothing is loaded before it is used,
and entry points are not looked up as long as only built-in names are asked for.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


class PluginError(RuntimeError):
    """An addition of another distribution that cannot be used; the message names the distribution."""


class Registry(Mapping[str, str]):
    """Names, each with the object that it names, as ``module`` or ``module:attribute``: the built-in ones first.

    Built-in objects keep their names, whatever a plugin calls its own.

    Args:
        group: the group of entry points, such as ``dlx.systems``.
        kind: what a name stands for, in one word, for messages.
        built_in: the objects that are built in, by name.
        needs: the attributes that each object must have.
    """

    def __init__(self, group: str, kind: str, built_in: Mapping[str, str], needs: Sequence[str] = ()) -> None:
        self.built_in = dict(built_in)
        self._group, self._kind, self._needs = group, kind, needs

    def __getitem__(self, name: str) -> str:
        if name in self.built_in:
            return self.built_in[name]
        return self._plugins[name][0].value

    def __contains__(self, name: object) -> bool:
        return name in self.built_in or name in self._plugins

    def __iter__(self) -> Iterator[str]:
        yield from self.built_in
        yield from self._plugins

    def __len__(self) -> int:
        return len(self.built_in) + len(self._plugins)

    def load(self, name: str) -> Any:
        """Return the object of that name.

        Raises ``KeyError`` if there is no such name, and ``PluginError`` if the distribution that has it is broken.
        """
        if name in self.built_in:
            module, _, attribute = self.built_in[name].partition(":")
            found = importlib.import_module(module)
            return getattr(found, attribute) if attribute else found
        return self._loaded(name, self._plugins[name])

    def _loaded(self, name: str, offered: Sequence[EntryPoint]) -> Any:
        if len(offered) > 1:
            raise PluginError(f"{self._kind} {name!r} is in several distributions: {', '.join(map(_source, offered))}")
        (entry_point,) = offered
        try:
            found = entry_point.load()
        except Exception as error:
            raise self._broken(entry_point, f"cannot be loaded: {type(error).__name__}: {error}") from error
        for attribute in self._needs:
            if not hasattr(found, attribute):
                raise self._broken(entry_point, f"has no attribute {attribute!r}")
        return found

    def refused(self, name: str, problem: str) -> PluginError:
        """Return the error that says what is wrong with an object that a plugin has under this name."""
        return self._broken(self._plugins[name][0], problem)

    def _broken(self, entry_point: EntryPoint, problem: str) -> PluginError:
        where = f"{entry_point.value!r} in the distribution {_source(entry_point)}"
        return PluginError(f"{self._kind} {entry_point.name!r} ({where}) {problem}")

    @cached_property
    def _plugins(self) -> dict[str, list[EntryPoint]]:
        """The entry points by name; a name has several where distributions share it."""
        from importlib.metadata import entry_points

        found: dict[str, list[EntryPoint]] = {}
        for entry_point in sorted(entry_points(group=self._group), key=lambda each: (each.name, _source(each))):
            if entry_point.name not in self.built_in:
                found.setdefault(entry_point.name, []).append(entry_point)
        return found


def _source(entry_point: EntryPoint) -> str:
    """Return the name and version of the distribution that an entry point is from."""
    dist = entry_point.dist
    return "of an unknown name" if dist is None else f"{dist.name} {dist.version}"
