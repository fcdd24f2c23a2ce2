"""Inputs that no good client sends. What each release answers is in ``answers.json``, recorded by ``record.py``.

A case gets a ``Wire`` before its protocol header; what the server answers after the
last line that the case itself expected is the case's answer.
"""

from tests.faults.cases import (  # noqa: F401  # each adds its cases
    arguments,
    connections,
    contents,
    framing,
    handshakes,
    mutations,
    properties,
    protocol_headers,
)
from tests.faults.cases.registry import CASES

__all__ = ["CASES"]
