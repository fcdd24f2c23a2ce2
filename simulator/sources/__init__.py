"""Files other than exports that describe a topology, read into the document of an export.

``read_topology`` and ``parse_topology`` take a file, a folder or a text of any kind that a reader knows, and exports.
``document.py`` has what a reader is given and what it yields, ``json_documents.py`` and ``yaml_documents.py`` make
documents of texts, ``reading.py`` has the table of readers and puts together what they found.
"""

from __future__ import annotations

from simulator.sources.reading import parse_topology, read_topology

__all__ = ["parse_topology", "read_topology"]
