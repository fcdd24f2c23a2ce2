"""Names the extra that brings a library that the base installation lacks, and tells how to get it."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from types import ModuleType

_SERVER = ("pika", "prometheus_client", "starlette", "uvicorn")

EXTRAS: dict[str, tuple[str, ...]] = {
    "capture": ("pika", "prometheus_client", "pyarrow"),
    "replay": (
        "pika",
        "prometheus_client",
        "pyarrow",
        "pyspark",
        "py4j",
        "duckdb",
        "sqlglot",
        "numpy",
        "pandas",
        "plotly",
    ),
    "server": _SERVER,
    "activemq": ("defusedxml",),
    "testing": (*_SERVER, "defusedxml", "pytest", "hypothesis", "pamqp", "testcontainers", "yaml"),
}
"""What each extra brings, as modules; for a library that several bring, the first is the smallest."""


def missing(error: ModuleNotFoundError, extra: str | None = None) -> str | None:
    """Say what to install for the library that was not found; ``None`` when no extra has it.

    ``extra`` is the one that all of what was asked for needs, such as ``replay`` for ``dlx replay``.
    """
    library = (error.name or "").partition(".")[0]
    having = [name for name, libraries in EXTRAS.items() if library in libraries]
    if not having:
        return None
    return f"this needs {library}: pip install '.[{extra if extra in having else having[0]}]' in a checkout of dlx"


def importing(extra: str) -> Callable[[str], ModuleType]:
    """Return an ``import_module`` that names the extra where a library is not there."""

    def load(module: str) -> ModuleType:
        try:
            return import_module(module)
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(missing(error, extra) or str(error), name=error.name) from None

    return load
