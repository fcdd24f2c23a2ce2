"""The Python in the documents runs, and prints what stands below it."""

from __future__ import annotations

import contextlib
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from simulator.extras import is_installed

ROOT = Path(__file__).parent.parent.parent
# A block of Python, and the output that follows it, if one does.
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.DOTALL | re.MULTILINE)
EXAMPLES = [
    "reference/activemq.md",
    "how-to/broker.md",
    "how-to/capture.md",
    "how-to/consumer.md",
    "how-to/faults.md",
    "reference/ibm_mq.md",
    "how-to/replay.md",
    "how-to/sources.md",
    "reference/replay-verdicts.md",
    "how-to/testing.md",
    pytest.param("how-to/tls.md", marks=pytest.mark.skipif(not is_installed("trustme"), reason="needs trustme")),
    "how-to/whatif.md",
]
LINKS = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("document", EXAMPLES)
def test_examples_run_and_print_what_is_shown(document: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    text = (ROOT / "docs" / document).read_text(encoding="utf-8")
    blocks = list(BLOCK.finditer(text))
    assert blocks
    names: dict[str, Any] = {"__name__": document}
    for block in blocks:
        code, expected = block.groups()
        line = text[: block.start(1)].count("\n")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            # Empty lines before the code make tracebacks name the line of the document.
            exec(compile("\n" * line + code, f"docs/{document}", "exec"), names)
        assert printed.getvalue() == (expected or ""), f"docs/{document}:{line}"


@pytest.mark.parametrize("path", sorted((ROOT / "docs").rglob("*.md")), ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    targets = [target for target in LINKS.findall(text) if "://" not in target]
    assert [target for target in targets if not (path.parent / target).exists()] == []


def test_the_questions_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of lint.md, on definitions of their own: a queue that loses messages, which the document excepts."""
    queue = {"name": "orders.legacy", "vhost": "/", "durable": True, "auto_delete": False}
    lost = {**queue, "arguments": {"x-message-ttl": 1000, "x-dead-letter-exchange": "gone"}}
    (tmp_path / "definitions.json").write_text(json.dumps({"vhosts": [{"name": "/"}], "queues": [lost]}))
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "how-to" / "lint.md").read_text(encoding="utf-8")
    (code,) = (block[1] for block in BLOCK.finditer(text) if "definitions.json" in block[1])
    exec(compile(code, "lint.md", "exec"), {})
