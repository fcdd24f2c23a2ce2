"""What a server is, as its exported definitions say it: read, completed, laid over another, and checked.

``reading`` makes topologies of an export, and of one the text again; ``completed`` adds stand-ins for what
it does not tell; ``overlay`` lays one over another; ``checks`` says what a release takes; ``places`` where it stands.
"""

from __future__ import annotations

from simulator.definitions.places import Place
from simulator.definitions.reading import (
    NO_KEY,
    Definitions,
    DefinitionsError,
    checking,
    importable,
    parse_definitions,
    read_definitions,
    version_of,
    write_definitions,
)

__all__ = [
    "NO_KEY",
    "Definitions",
    "DefinitionsError",
    "Place",
    "checking",
    "importable",
    "parse_definitions",
    "read_definitions",
    "version_of",
    "write_definitions",
]
