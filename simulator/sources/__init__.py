"""Files other than exports that describe a topology, read into the document of an export.

``definitions_from_file`` and ``definitions_from_text`` take exports and all else that a reader knows. ``document.py``
has what a reader is given and what it yields, ``yaml_documents.py`` makes documents of YAML, ``reading.py`` has the
table of readers and puts together what they found. ``exports.py``, ``topology_operator.py``, ``terraform.py``,
``rascal.py`` and ``dapr.py`` are readers, ``fields.py`` checks fields for them.
"""

from __future__ import annotations

from simulator.sources.reading import definitions_from_file, definitions_from_text

__all__ = ["definitions_from_file", "definitions_from_text"]
