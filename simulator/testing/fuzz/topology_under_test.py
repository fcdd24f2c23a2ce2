"""The definitions file of a test, and the one virtual host of it that the test is about."""

from __future__ import annotations

import inspect
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dlx.topology import Topology
from simulator.definitions import Definitions, DefinitionsError, importable
from simulator.sources import definitions_from_file


@dataclass(frozen=True)
class OneTopology:
    """A topology to be imported into the virtual host of a test.

    Attributes:
        source: the file it is from, for messages.
        topology: as values.
        document: as the export of one virtual host, in plain JSON values.
    """

    source: str
    topology: Topology
    document: dict[str, Any]

    @property
    def default_queue_type(self) -> str | None:
        """The type of queues that are declared without one, where the export says."""
        kind = (self.document.get("metadata") or {}).get("default_queue_type")
        return None if kind == "undefined" else kind


def file_of(given: str | os.PathLike[str], cls: type) -> str:
    """Return the file or folder that a class names: beside the file of that class, or in the current folder.

    Raises:
        DefinitionsError: it is in neither.
    """
    here = Path.cwd()
    folders = list(dict.fromkeys((*_beside(cls), here)))
    found = next((folder / given for folder in folders if (folder / given).exists()), None)
    if found is None:
        looked = " or ".join(map(str, folders))
        raise DefinitionsError(os.fspath(given), "", f"no such file; looked in {looked}")
    return str(found.relative_to(here) if found.is_relative_to(here) else found)


def _beside(cls: type) -> tuple[Path, ...]:
    """Return the folder of the file of a class; empty for a class that is in no file."""
    try:
        return (Path(inspect.getfile(cls)).resolve().parent,)
    except (TypeError, OSError):
        return ()


def read_topology(path: Path, vhost: str | None = None) -> OneTopology:
    """Read one virtual host of an export; without ``vhost``, the only one that has queues.

    Raises:
        DefinitionsError: the file cannot be used, or does not say which virtual host is meant.
    """
    definitions = definitions_from_file(path)
    name = _only(definitions) if vhost is None else vhost
    document = importable(json.loads(definitions.to_json(name)))
    return OneTopology(definitions.source, definitions.topology(name), document)


def _only(definitions: Definitions) -> str:
    used = [name for name in definitions.vhosts if definitions.topology(name).queues] or definitions.vhosts
    if len(used) == 1:
        return used[0]
    known = ", ".join(repr(name) for name in used)
    raise DefinitionsError(
        definitions.source,
        "vhosts",
        f"expected one virtual host with queues, got {known}; "
        "name one with @pytest.mark.dlx_topology(FILE, vhost=NAME)",
    )
