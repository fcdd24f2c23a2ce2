"""The tests in docs/how-to/testing.md run, and fail as is shown there."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

DOCUMENT = Path(__file__).parents[2] / "docs" / "how-to" / "testing.md"
LEAVING = DOCUMENT.with_name("from-testcontainers.md")
FIXTURES = ("dlx_broker", "dlx_topology", "dlx_clock", "dlx_amqp_url")
SHOWN = re.compile(r"^E  .*$", re.MULTILINE)
TIME = re.compile(r"At \d{4}-\d\d-\d\d [\d:.]+")


def test_the_documented_tests_do_what_is_shown(loaded: None, pytester: pytest.Pytester) -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    tests = [block for block in blocks if any(fixture in block for fixture in FIXTURES)]
    assert len(tests) == 9
    queues = [{"name": "orders", "vhost": "shop", "durable": True, "arguments": {}}]
    definitions = {"vhosts": [{"name": "shop"}], "queues": queues}
    (pytester.path / "definitions.json").write_text(json.dumps(definitions))
    pytester.makepyfile(**{f"test_{number}": block for number, block in enumerate(tests)})  # each works alone

    result = pytester.runpytest("-p", "no:cacheprovider", "--tb=short")
    result.assert_outcomes(passed=10, failed=1)
    failed = SHOWN.findall(result.stdout.str())
    assert [TIME.sub("At", line) for line in failed] == [TIME.sub("At", line) for line in SHOWN.findall(text)]


def test_four_lines_leave_testcontainers(loaded: None, pytester: pytest.Pytester) -> None:
    (diff,) = re.findall(r"^```diff\n(.*?)^```$", LEAVING.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    lines = diff.splitlines()
    assert sum(line.startswith("+") for line in lines) == 4
    compile("\n".join(line[1:] for line in lines if not line.startswith("+")), "before", "exec")
    pytester.makepyfile("\n".join(line[1:] for line in lines if not line.startswith("-")))
    pytester.runpytest("-p", "no:cacheprovider").assert_outcomes(passed=1)
