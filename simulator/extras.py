"""Names the extra that brings a library that the base installation lacks, and says how to get it."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

_SERVER = ("pika", "prometheus_client", "starlette", "uvicorn")
_REPLAY = ("pyarrow", "duckdb", "sqlglot", "numpy", "plotly")

EXTRAS: dict[str, tuple[str, ...]] = {
    "capture": ("pika", "prometheus_client", "pyarrow"),
    "ops": ("pika", "pyarrow"),
    "replay": _REPLAY,
    "spark": (*_REPLAY, "pyspark", "py4j", "pandas"),
    "server": _SERVER,
    "activemq": ("defusedxml",),
    "yaml": ("yaml",),
    "otlp": ("opentelemetry",),
    "amqp10": ("proton",),
    "testing": (*_SERVER, "defusedxml", "pytest", "hypothesis", "pamqp", "testcontainers", "trustme", "yaml"),
}
"""What each extra brings, as modules; for a library that several bring, the first is the smallest."""


class ExtraMissingError(ModuleNotFoundError):
    """An extra is not installed, or not whole; the text says what to install."""


def missing(error: ModuleNotFoundError, extra: str | None = None) -> str | None:
    """Say what to install for the library that was not found; ``None`` when no extra has it.

    ``extra`` is the one that the whole command needs, such as ``replay`` for ``dlx replay``.
    """
    if isinstance(error, ExtraMissingError):
        return str(error)
    library = (error.name or "").partition(".")[0]
    having = [name for name, libraries in EXTRAS.items() if library in libraries]
    if not having:
        return None
    return _to_install(library, extra if extra in having else having[0])


def _to_install(library: str, extra: str) -> str:
    return f"this needs {library}: pip install '.[{extra}]' in a checkout of dlx"


def is_installed(library: str) -> bool:
    """Return whether Python finds a library, without importing it."""
    try:
        return find_spec(library) is not None
    except (ModuleNotFoundError, ValueError):  # ValueError: sys.modules says that there is none
        return False


def check_installed(extra: str) -> None:
    """Raise ``ExtraMissingError`` for the first library of the extra that is missing.

    A command calls this before its work, so that a missing library never ends a long run.
    """
    for library in EXTRAS[extra]:
        if not is_installed(library):
            raise ExtraMissingError(_to_install(library, extra), name=library)


def importing(extra: str) -> Callable[[str], ModuleType]:
    """Return an ``import_module`` that names the extra where a library is not there."""

    def load(module: str) -> ModuleType:
        try:
            return import_module(module)
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(missing(error, extra) or str(error), name=error.name) from None

    return load
