"""All scenarios of calls to the management API."""

from __future__ import annotations

from tests.management import binding_calls, calls, import_calls, limit_calls, list_calls, odd_calls

# The last of those that import leave a virtual host in which 4.0 declares no queue without a type.
_MODULES = (calls, limit_calls, list_calls, binding_calls, odd_calls, import_calls)
SCENARIOS = {name: each for module in _MODULES for name, each in module.SCENARIOS.items()}
