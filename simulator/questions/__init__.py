"""Questions about a topology: what can become of its messages, where they are lost, and which setting does it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dlx._lazy import lazy

if TYPE_CHECKING:
    from simulator.questions.answer import Answer as Answer
    from simulator.questions.answer import Row as Row
    from simulator.questions.asking import Question as Question
    from simulator.questions.asking import ask as ask
    from simulator.questions.findings import Finding as Finding
    from simulator.questions.findings import Fix as Fix
    from simulator.questions.findings import ObjectName as ObjectName
    from simulator.questions.lint_rules.linting import LintReport as LintReport
    from simulator.questions.lint_rules.linting import lint as lint
else:
    __getattr__, __dir__ = lazy(
        __name__,
        {
            "simulator.questions.answer": ("Answer", "Row"),
            "simulator.questions.asking": ("Question", "ask"),
            "simulator.questions.findings": ("Finding", "Fix", "ObjectName"),
            "simulator.questions.lint_rules.linting": ("LintReport", "lint"),
        },
    )
