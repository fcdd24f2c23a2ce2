"""Which extra brings a library that the base installation lacks, and how to get it."""

from __future__ import annotations

EXTRAS = {
    **dict.fromkeys(("numpy", "pandas", "plotly", "py4j", "pyspark"), "replay"),
    "pyarrow": "capture",
    **dict.fromkeys(("pika", "starlette", "uvicorn"), "server"),
    "defusedxml": "activemq",
    **dict.fromkeys(("hypothesis", "pytest", "testcontainers"), "testing"),
}


def missing(error: ModuleNotFoundError) -> str | None:
    """What to install for the library that was not found; ``None`` when no extra has it."""
    library = (error.name or "").partition(".")[0]
    if library not in EXTRAS:
        return None
    # The package index knows another project by the name of this one.
    return f"this needs {library}: pip install '.[{EXTRAS[library]}]' in a checkout of dlx"
