"""What a server is, as its exported definitions say it: read, completed, laid over another, and checked.

``reading`` makes topologies of an export, and of one the text again; ``completed`` adds stand-ins for what
it does not tell; ``overlay`` lays one over another; ``checks`` says what a release takes; ``places`` where it stands;
``schema`` is the JSON Schema for editors.
"""

from __future__ import annotations

from simulator.definitions.places import Place as Place
from simulator.definitions.reading import NO_KEY as NO_KEY
from simulator.definitions.reading import Definitions as Definitions
from simulator.definitions.reading import DefinitionsError as DefinitionsError
from simulator.definitions.reading import checking as checking
from simulator.definitions.reading import importable as importable
from simulator.definitions.reading import parse_definitions as parse_definitions
from simulator.definitions.reading import read_definitions as read_definitions
from simulator.definitions.reading import version_of as version_of
from simulator.definitions.reading import write_definitions as write_definitions
