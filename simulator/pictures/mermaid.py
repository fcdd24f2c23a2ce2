"""Writes a graph as a Mermaid flowchart, and a life as a sequence diagram, for documents that draw them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from simulator.events import LOSSES, Event, Happened
from simulator.pictures.graph import EdgeKind, Graph, Node, NodeKind
from simulator.pictures.repetitions import repeats
from simulator.pictures.svg import COLOURS

_SHAPES: Mapping[NodeKind, tuple[str, str]] = {
    "queue": ("[", "]"),
    "exchange": ("([", "])"),
    "missing": ("([", "])"),
    "lost": ("{{", "}}"),
    "end": ("([", "])"),
}
_ARROWS: Mapping[EdgeKind, str] = {
    "binding": "-->",
    "alternate": "-.->",
    "dead letter": "-.->",
    "loss": "-.->",
    "shovel": "==>",
}


def as_mermaid(graph: Graph) -> str:
    """Return the picture of a graph as a Mermaid flowchart; its notes are comments."""
    return "\n".join(_lines(graph)) + "\n"


def _lines(graph: Graph) -> Iterator[str]:
    yield "flowchart LR"
    for note in graph.notes:
        yield f"    %% {' '.join(note.split())}"
    names = {node: f"n{number}" for number, node in enumerate(graph.nodes, 1)}
    for node, lines in graph.nodes.items():
        opening, closing = _SHAPES[node.kind]
        yield f'    {names[node]}{opening}"{_text(lines)}"{closing}{_class(node)}'
    for edge in graph.edges:
        label = f'|"{_text(edge.label)}"|' if edge.label else ""
        yield f"    {names[edge.source]} {_ARROWS[edge.kind]}{label} {names[edge.target]}"
    for kind in ("dead letter", "loss"):
        numbers = ",".join(str(number) for number, edge in enumerate(graph.edges) if edge.kind == kind)
        if numbers:
            yield f"    linkStyle {numbers} stroke:{COLOURS[kind]},color:{COLOURS[kind]}"
    if any(node.kind in ("lost", "missing") for node in graph.nodes):
        yield f"    classDef lost stroke:{COLOURS['lost']},color:{COLOURS['lost']},stroke-dasharray:5 3"


def _text(lines: tuple[str, ...]) -> str:
    return "<br/>".join(map(quoted, lines))


def _class(node: Node) -> str:
    return ":::lost" if node.kind in ("lost", "missing") else ""


# Escapes text for Mermaid's diagrams.


_SPECIAL = re.compile(r'[#;:%"<>&|`\x00-\x1f\x7f-\x9f\u2028\u2029]')


def quoted(text: str) -> str:
    """Escape text so that Mermaid shows it unchanged."""
    return _SPECIAL.sub(lambda found: f"#{ord(found[0])};", text) or " "


# Draws the life of a message as a Mermaid sequence diagram: who handed it to whom, and where it ended.


EVENTS_DRAWN_MAX = 2_000


def sequence_as_mermaid(events: Sequence[Happened]) -> str:
    """Draw the life of the message as a Mermaid sequence diagram: who handed it to whom, and where it ended."""
    drawing = _SequenceDrawing()
    for event in events[:EVENTS_DRAWN_MAX]:
        drawing.draw(event)
    for event in events[:EVENTS_DRAWN_MAX][-1:]:
        if event.event == Event.HELD and event.queue is not None:
            drawing.arrows.append(f"Note over {drawing.queues[event.queue]}: holds it ({event.reason})")
    queues = [f"    participant {alias} as {quoted(name)}" for name, alias in drawing.queues.items()]
    people = [f"    participant {name}" for name in ("publisher", "consumer", "lost") if name in drawing.used]
    return "\n".join(["sequenceDiagram", *people[:1], *queues, *people[1:], *_folded(drawing.arrows)])


class _SequenceDrawing:
    """The arrows of a sequence diagram."""

    def __init__(self) -> None:
        self.queues: dict[str, str] = {}
        self.used: set[str] = set()
        self.arrows: list[str] = []
        self._from: tuple[str, str] | None = None
        self._at_us: int | None = None

    def draw(self, event: Happened) -> None:
        """Add the arrow of an event."""
        self._pause(event)
        queue = None if event.queue is None else self._queue(event.queue)
        if queue is None:
            return
        match event.event:
            case Event.ROUTED if self._from is not None:
                self._arrow(self._from[0], "->>", queue, self._from[1])
            case Event.ROUTED:
                self._arrow(self._person("publisher"), "->>", queue, f"publish {' '.join(event.routing_keys)}")
            case Event.NACKED | Event.DEFERRED if self._from is not None:
                self._arrow(self._from[0], "-x", queue, f"{self._from[1]}, refused")
            case Event.DELIVERED:
                self._arrow(queue, "->>", self._person("consumer"), "deliver")
            case Event.ACKED:
                self._arrow(self._person("consumer"), "-->>", queue, "ack")
            case Event.REJECTED:
                self._arrow(self._person("consumer"), "-->>", queue, "reject")
            case Event.REQUEUED:
                self._arrow(self._person("consumer"), "-->>", queue, f"requeue ({event.detail})")
            case Event.DEAD_LETTERED | Event.HELD:
                self._from = queue, f"dead letter ({event.reason})"
            case lost if lost in LOSSES:
                self._arrow(queue, "-x", self._person("lost"), f"{event.event} {event.reason or ''}".rstrip())

    def _pause(self, event: Happened) -> None:
        if self._at_us is not None and event.time_us > self._at_us and self.queues:
            waited_ms = (event.time_us - self._at_us) // 1_000
            self.arrows.append(f"Note over {next(iter(self.queues.values()))}: {waited_ms:,} ms pass")
        self._at_us = event.time_us

    def _queue(self, name: str) -> str:
        return self.queues.setdefault(name, f"q{len(self.queues) + 1}")

    def _person(self, name: str) -> str:
        self.used.add(name)
        return name

    def _arrow(self, source: str, arrow: str, target: str, label: str) -> None:
        self.arrows.append(f"{source}{arrow}{target}: {quoted(label)}")


def _folded(arrows: list[str]) -> list[str]:
    """Return the lines, with repetitions in a loop."""
    lines: list[str] = []
    for part, times in repeats(arrows):
        if times > 1:
            lines += [f"    loop {times:,} times", *(f"        {line}" for line in part), "    end"]
        else:
            lines += [f"    {line}" for line in part]
    return lines
