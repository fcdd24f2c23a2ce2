"""Questions about a topology: what can become of its messages, where they are lost, and which setting does it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dlx._lazy import lazy

if TYPE_CHECKING:
    from simulator.analysis.asking import Answer as Answer
    from simulator.analysis.asking import Question as Question
    from simulator.analysis.asking import Row as Row
    from simulator.analysis.asking import ask as ask
    from simulator.analysis.findings import Finding as Finding
    from simulator.analysis.findings import Fix as Fix
    from simulator.analysis.findings import ObjectName as ObjectName
    from simulator.analysis.lint.linting import LintReport as LintReport
    from simulator.analysis.lint.linting import lint as lint
else:
    __all__, __getattr__, __dir__ = lazy(
        __name__,
        {
            "simulator.analysis.asking": ("Answer", "Question", "Row", "ask"),
            "simulator.analysis.findings": ("Finding", "Fix", "ObjectName"),
            "simulator.analysis.lint.linting": ("LintReport", "lint"),
        },
    )
