"""A layered drawing of a directed graph: flow goes down, what returns goes up along the right.

The steps are the usual ones: break cycles, put nodes in layers, order each layer
by where its neighbours are, and straighten. Everything is in pixels, y downwards,
and depends on the order of the input alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Generic, NamedTuple, TypeVar

GAP_X, GAP_Y = 34.0, 54.0
PIECE_GAP = 60.0
WIDTH_WANTED = 1_000.0
SWEEPS = 12

Point = tuple[float, float]
Size = tuple[float, float]
Name = TypeVar("Name", bound=Hashable)


class ArrowRoute(NamedTuple):
    """The way of one arrow: through ``points``, downwards, or ``back`` along the right."""

    points: tuple[Point, ...]
    back: bool = False


class _Bend(NamedTuple):
    """Where a long arrow passes a layer."""

    arrow: int
    layer: int


class Layout(NamedTuple, Generic[Name]):
    """Where everything is; ``routes`` in the order of the arrows."""

    centres: dict[Name, Point]
    routes: list[ArrowRoute]
    width: float
    height: float


def layered(
    sizes: Mapping[Name, Size], arrows: Sequence[tuple[Name, Name]], *, width_wanted: float = WIDTH_WANTED
) -> Layout[Name]:
    """Lay out nodes of the given width and height.

    Unconnected pieces stand beside each other, as many as ``width_wanted`` has room for.
    """
    centres: dict[Name, Point] = {}
    routes: dict[int, ArrowRoute] = {}
    x = y = row_height = width = 0.0
    for members in _pieces(sizes, arrows):
        numbers = [n for n, (source, _) in enumerate(arrows) if source in members]
        piece = _Component({name: sizes[name] for name in members}, [arrows[n] for n in numbers]).layout()
        if x > 0 and x + piece.width > width_wanted:
            x, y, row_height = 0.0, y + row_height + PIECE_GAP, 0.0
        for name, (cx, cy) in piece.centres.items():
            centres[name] = (cx + x, cy + y)
        for number, route in zip(numbers, piece.routes, strict=True):
            routes[number] = ArrowRoute(tuple((px + x, py + y) for px, py in route.points), route.back)
        x += piece.width + PIECE_GAP
        width, row_height = max(width, x - PIECE_GAP), max(row_height, piece.height)
    return Layout(centres, [routes[n] for n in range(len(arrows))], width, y + row_height)


def _pieces(sizes: Mapping[Name, Size], arrows: Sequence[tuple[Name, Name]]) -> list[dict[Name, None]]:
    """Return the connected pieces, the largest first."""
    beside: defaultdict[Name, list[Name]] = defaultdict(list)
    for source, target in arrows:
        beside[source].append(target)
        beside[target].append(source)
    pieces: list[dict[Name, None]] = []
    seen: set[Name] = set()
    for start in sizes:
        if start in seen:
            continue
        members: dict[Name, None] = {}
        waiting = [start]
        while waiting:
            name = waiting.pop()
            if name not in seen:
                seen.add(name)
                members[name] = None
                waiting += beside[name]
        pieces.append(members)
    return sorted(pieces, key=lambda members: -len(members))


class _Component(Generic[Name]):
    """One connected graph. Long arrows have a bend in every layer that they pass."""

    def __init__(self, sizes: Mapping[Name, Size], arrows: Sequence[tuple[Name, Name]]) -> None:
        self.sizes: dict[Any, Size] = dict(sizes)
        self.arrows = arrows
        self.back = returning(sizes, arrows)
        self.layers = self._layers()
        self.ways = [self._way(number) for number in range(len(arrows))]
        self.rows: list[list[Any]] = [[] for _ in range(1 + max(self.layers.values(), default=0))]
        self.above: defaultdict[Any, list[Any]] = defaultdict(list)
        self.below: defaultdict[Any, list[Any]] = defaultdict(list)
        for way in self.ways:
            for upper, lower in pairwise(way):
                self.below[upper].append(lower)
                self.above[lower].append(upper)
        for name, layer in self.layers.items():
            self.rows[layer].append(name)

    def layout(self) -> Layout[Name]:
        self._order()
        x = self._straighten()
        y = self._heights()
        centres = {name: (x[name], y[self.layers[name]]) for name in self.layers}
        routes = self._routes(centres)
        left = min(x[name] - self.sizes[name][0] / 2 for name in x)
        right = max(
            [x[name] + self.sizes[name][0] / 2 for name in x]
            + [point[0] + 50 for route in routes if route.back for point in route.points]
        )
        bottom = y[-1] + max(self.sizes[name][1] for name in self.rows[-1]) / 2
        return Layout(
            {name: (cx - left, cy) for name, (cx, cy) in centres.items() if not isinstance(name, _Bend)},
            [ArrowRoute(tuple((px - left, py) for px, py in r.points), r.back) for r in routes],
            right - left,
            bottom,
        )

    def _layers(self) -> dict[Any, int]:
        """Return each node below everything that flows into it; those without inflow close to their first target."""
        forward = [arrow for n, arrow in enumerate(self.arrows) if n not in self.back]
        inflow = dict.fromkeys(self.sizes, 0)
        targets: defaultdict[Any, list[Any]] = defaultdict(list)
        for source, target in forward:
            inflow[target] += 1
            targets[source].append(target)
        layers: dict[Any, int] = dict.fromkeys(self.sizes, 0)
        sources = [name for name, count in inflow.items() if count == 0]
        waiting = list(sources)
        for name in waiting:
            for target in targets[name]:
                layers[target] = max(layers[target], layers[name] + 1)
                inflow[target] -= 1
                if inflow[target] == 0:
                    waiting.append(target)
        for name in sources:
            if targets[name]:
                layers[name] = min(layers[target] for target in targets[name]) - 1
        return layers

    def _way(self, number: int) -> list[Any]:
        """Return the nodes and bends that an arrow passes; nothing for one that returns."""
        if number in self.back:
            return []
        source, target = self.arrows[number]
        bends = [_Bend(number, layer) for layer in range(self.layers[source] + 1, self.layers[target])]
        for bend in bends:
            self.sizes[bend] = (24.0, 0.0)
            self.layers[bend] = bend.layer
        return [source, *bends, target]

    def _order(self) -> None:
        for sweep in range(SWEEPS):
            down = sweep % 2 == 0
            beside = self.above if down else self.below
            for row in self.rows[1:] if down else self.rows[-2::-1]:
                place = {name: i / max(1, len(r) - 1) for r in self.rows for i, name in enumerate(r)}
                wanted = {name: _mean([place[other] for other in beside[name]], place[name]) for name in row}
                row.sort(key=wanted.__getitem__)

    def _straighten(self) -> dict[Any, float]:
        """Return the x of every node: near the mean of its neighbours, none over another."""
        x: dict[Any, float] = {}
        for row in self.rows:
            self._spread(row, dict.fromkeys(row, 0.0), x)
        for sweep in range(2 * SWEEPS):
            for row in self.rows if sweep % 2 == 0 else self.rows[::-1]:
                wanted = {
                    name: _mean([x[other] for other in (*self.above[name], *self.below[name])], x[name]) for name in row
                }
                self._spread(row, wanted, x)
        return x

    def _spread(self, row: list[Any], wanted: Mapping[Any, float], x: dict[Any, float]) -> None:
        """Place a row in its order, as near as it can be to where its nodes are wanted."""
        leftmost: list[float] = []
        for index, name in enumerate(row):
            at = wanted[name]
            if index:
                at = max(at, leftmost[-1] + self._apart(row[index - 1], name))
            leftmost.append(at)
        rightmost = [0.0] * len(row)
        for index in range(len(row) - 1, -1, -1):
            at = wanted[row[index]]
            if index + 1 < len(row):
                at = min(at, rightmost[index + 1] - self._apart(row[index], row[index + 1]))
            rightmost[index] = at
        for index, name in enumerate(row):
            x[name] = (leftmost[index] + rightmost[index]) / 2

    def _apart(self, one: Any, other: Any) -> float:
        return (self.sizes[one][0] + self.sizes[other][0]) / 2 + GAP_X

    def _heights(self) -> list[float]:
        """Return the y of each layer's centre; wide drawings are high, so that arrows do not lie flat."""
        found: list[float] = []
        top = 0.0
        gap = GAP_Y + 0.04 * max(sum(self.sizes[name][0] + GAP_X for name in row) for row in self.rows)
        for row in self.rows:
            height = max(self.sizes[name][1] for name in row)
            found.append(top + height / 2)
            top += height + gap
        return found

    def _routes(self, centres: Mapping[Any, Point]) -> list[ArrowRoute]:
        routes: list[ArrowRoute | None] = [None] * len(self.arrows)
        leaving: defaultdict[Any, list[int]] = defaultdict(list)
        entering: defaultdict[Any, list[int]] = defaultdict(list)
        for number, way in enumerate(self.ways):
            if way:
                leaving[way[0]].append(number)
                entering[way[-1]].append(number)
        starts = self._ports(leaving, 1, centres)
        ends = self._ports(entering, -2, centres)
        for number, way in enumerate(self.ways):
            if way:
                (x0, y0), (x1, y1) = centres[way[0]], centres[way[-1]]
                first = (x0 + starts[number], y0 + self.sizes[way[0]][1] / 2)
                last = (x1 + ends[number], y1 - self.sizes[way[-1]][1] / 2)
                routes[number] = ArrowRoute((first, *(centres[bend] for bend in way[1:-1]), last))
        for lane, number in enumerate(sorted(self.back)):
            routes[number] = self._around(number, lane, centres)
        return [route for route in routes if route is not None]

    def _ports(self, by_node: Mapping[Any, list[int]], beside: int, centres: Mapping[Any, Point]) -> dict[int, float]:
        """Return where along the side of its node each arrow starts or ends, from the middle."""
        found: dict[int, float] = {}
        for name, numbers in by_node.items():
            ordered = sorted(numbers, key=lambda n: (centres[self.ways[n][beside]][0], n))
            step = min(70.0, 0.85 * self.sizes[name][0] / len(ordered))
            for place, number in enumerate(ordered):
                found[number] = step * (place - (len(ordered) - 1) / 2)
        return found

    def _around(self, number: int, lane: int, centres: Mapping[Any, Point]) -> ArrowRoute:
        """Return the way back: from the right side of the source to that of the target."""
        source, target = self.arrows[number]
        (x0, y0), (x1, y1) = centres[source], centres[target]
        between = sorted((self.layers[source], self.layers[target]))
        rows = self.rows[between[0] : between[1] + 1]
        own = {source, target}
        edge = max(
            centres[name][0] + self.sizes[name][0] / 2
            for row in rows
            for name in row
            if name in own or source != target
        )
        shift = 8.0 if source == target else 0.0
        start = (x0 + self.sizes[source][0] / 2, y0 + shift)
        end = (x1 + self.sizes[target][0] / 2, y1 - shift)
        turn = edge + 34 + 26 * (lane % 6)
        return ArrowRoute((start, (turn, (y0 + y1) / 2), end), back=True)


def returning(names: Iterable[Name], arrows: Sequence[tuple[Name, Name]]) -> set[int]:
    """Return the arrows that close a cycle when the graph is walked from its sources."""
    out: defaultdict[Name, list[int]] = defaultdict(list)
    entered = {target for source, target in arrows if source != target}
    for number, (source, _) in enumerate(arrows):
        out[source].append(number)
    order = sorted(names, key=lambda name: name in entered)
    state: dict[Name, int] = {}
    found: set[int] = set()
    for start in order:
        if start in state:
            continue
        state[start] = 1
        stack = [(start, iter(out[start]))]
        while stack:
            name, numbers = stack[-1]
            number = next(numbers, -1)
            if number < 0:
                state[name] = 2
                stack.pop()
                continue
            target = arrows[number][1]
            if state.get(target) == 1:
                found.add(number)
            elif target not in state:
                state[target] = 1
                stack.append((target, iter(out[target])))
    return found


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise
