"""What a consumer pays for ``import dlx``: nothing that it does not use is loaded."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {"pyspark", "pyarrow", "pandas", "numpy", "pika", "plotly", "click", "rich", "regex", "simulator"}


@pytest.mark.parametrize(
    ("code", "unwanted"),
    [
        ("import dlx", HEAVY | {"msgspec", "dlx.consumer", "dlx.releases"}),
        ("import dlx; dir(dlx)", HEAVY | {"msgspec"}),
        ("import dlx; dlx.death_history({'x-death': [{}]})", HEAVY | {"dlx.releases", "dlx.policies"}),
        ("from dlx.consumer import death_history", HEAVY | {"dlx.releases"}),
        ("import dlx; [getattr(dlx, name) for name in dlx.__all__]", HEAVY - {"regex"}),
    ],
)
def test_only_what_is_used_is_loaded(code: str, unwanted: set[str]) -> None:
    report = f"import sys; {code}; print(*({unwanted!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", report], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, [], "")


def test_an_unknown_name_is_an_attribute_error() -> None:
    import dlx

    with pytest.raises(AttributeError, match="module 'dlx' has no attribute 'nothing'"):
        _ = dlx.nothing
    assert set(dlx.__all__) <= set(dir(dlx))
