"""Computes the curves of a layered drawing, and places on them where a label covers nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

from simulator.pictures.layout import ArrowRoute, Point

Segment = tuple[Point, Point, Point, Point]
Box = tuple[float, float, float, float]
"""Left, top, right, bottom."""
PLACES = (0.5, 0.4, 0.6, 0.3, 0.7, 0.2, 0.8, 0.12, 0.88)


def segments(route: ArrowRoute) -> list[Segment]:
    """Return the cubic curves of a route: upright at their ends, or level where the route goes back."""
    if route.back:
        start, (turn, middle), end = route.points
        reach = 0.9 * abs(middle - start[1]) if start[1] != end[1] else 20.0
        if abs(start[1] - end[1]) < 30:  # a loop from a node to itself
            return [(start, (turn + 30, start[1] + 24), (turn + 30, end[1] - 24), end)]
        return [
            (start, (turn, start[1]), (turn, middle + reach), (turn, middle)),
            ((turn, middle), (turn, middle - reach), (turn, end[1]), end),
        ]
    found = []
    for (x0, y0), (x1, y1) in pairwise(route.points):
        half = (y1 - y0) / 2
        found.append(((x0, y0), (x0, y0 + half), (x1, y1 - half), (x1, y1)))
    return found


def svg_path(curves: list[Segment]) -> str:
    """Return the curves as an SVG path."""
    (x, y), *_ = curves[0]
    steps = [f"M {x:.1f},{y:.1f}"]
    steps += ["C " + " ".join(f"{px:.1f},{py:.1f}" for px, py in curve[1:]) for curve in curves]
    return " ".join(steps)


def point_at(curve: Segment, t: float) -> Point:
    """Return the point of a curve at ``t`` from 0 to 1."""
    u = 1 - t
    weights = (u * u * u, 3 * u * u * t, 3 * u * t * t, t * t * t)
    x = sum(weight * point[0] for weight, point in zip(weights, curve, strict=True))
    y = sum(weight * point[1] for weight, point in zip(weights, curve, strict=True))
    return x, y


def label_place(curves: list[Segment], width: float, height: float, taken: Iterable[Box]) -> Point:
    """Return the first place on the curves where a label of that size covers nothing, else its usual one."""
    boxes = list(taken)
    for point in _places(curves):
        if not any(overlap(box_around(point, width, height), box) for box in boxes):
            return point
    return next(_places(curves))


def _places(curves: list[Segment]) -> Iterator[Point]:
    middle = sorted(range(len(curves)), key=lambda n: abs(n - (len(curves) - 1) / 2))
    for n in middle:
        for t in PLACES:
            yield point_at(curves[n], t)


def box_around(centre: Point, width: float, height: float) -> Box:
    """Return the box of that size."""
    x, y = centre
    return x - width / 2, y - height / 2, x + width / 2, y + height / 2


def overlap(one: Box, other: Box) -> bool:
    """Return whether two boxes have a common area."""
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
