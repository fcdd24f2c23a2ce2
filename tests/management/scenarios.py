"""All scenarios of calls to the management API."""

from __future__ import annotations

from tests.management import calls, import_calls, limit_calls

SCENARIOS = calls.SCENARIOS | limit_calls.SCENARIOS | import_calls.SCENARIOS
