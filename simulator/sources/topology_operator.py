"""Objects of RabbitMQ's messaging topology operator for Kubernetes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from simulator.sources.document import Document, Found, Reader


def _recognises(document: Document) -> bool:
    value = document.value
    return isinstance(value, dict) and str(value.get("apiVersion", "")).startswith("rabbitmq.com/")


def _read(documents: Sequence[Document]) -> Iterator[Found]:
    yield from ()


TOPOLOGY_OPERATOR = Reader("objects of the messaging topology operator (rabbitmq.com)", _recognises, _read)
