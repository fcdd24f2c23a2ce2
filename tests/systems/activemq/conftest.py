"""Lets pytest show what differs where the simulator and a broker do."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("tests.systems.activemq.live.agreement")
