"""Reads OTLP's JSON back, strictly: what a Collector or Jaeger would not take, fails."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from google.protobuf.json_format import ParseDict
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span, TracesData

_HEX = {"traceId": re.compile("[0-9a-f]{32}"), "spanId": re.compile("[0-9a-f]{16}")}
_HEX["parentSpanId"] = _HEX["spanId"]
_ENUMS = {"kind", "code"}
_WIDE = re.compile("[0-9]+")  # 64 bits are decimal digits in a string


def traces(file: Path) -> list[list[Span]]:
    """The spans of each line, once the form is found right and every parent and link is there."""
    text = file.read_bytes().decode()
    assert text.endswith("\n") or not text
    lines = [_strict(json.loads(line)) for line in text.split("\n")[:-1]]
    found = [[*_spans(ParseDict(line, TracesData()))] for line in lines]
    for spans in found:
        _check(spans)
    ids = [span.span_id for spans in found for span in spans]
    assert len(set(ids)) == len(ids)
    return found


def facts(span: Span) -> dict[str, Any]:
    """The attributes of a span."""
    found = {each.key: _value(each.value) for each in span.attributes}
    assert len(found) == len(span.attributes), "each name once"
    return found


def _strict(value: Any) -> Any:
    """The JSON as protobuf's own parser takes it: with ids in base64."""
    if isinstance(value, list):
        return [_strict(each) for each in value]
    if not isinstance(value, dict):
        return value
    made = {}
    for name, each in value.items():
        assert re.fullmatch("[a-z][A-Za-z]*", name), f"{name}: names are in lowerCamelCase"
        if name in _HEX:
            assert _HEX[name].fullmatch(each), f"{name}: {each}"
            each = base64.b64encode(bytes.fromhex(each)).decode()
        if name in _ENUMS:
            assert type(each) is int, f"{name}: enumerations are integers"
        if name.endswith("UnixNano") or name == "intValue":
            assert isinstance(each, str), f"{name}: {each!r}"
            assert _WIDE.fullmatch(each), f"{name}: {each!r}"
        made[name] = _strict(each)
    return made


def _spans(read: TracesData) -> Iterator[Span]:
    (resource,) = read.resource_spans
    assert [each.value.string_value for each in resource.resource.attributes if each.key == "service.name"] == [
        "rabbitmq"
    ]
    (scope,) = resource.scope_spans
    assert scope.scope.name == "dlx"
    yield from scope.spans


def _check(spans: list[Span]) -> None:
    own = {span.span_id: span for span in spans}
    root = spans[0]
    assert len({span.trace_id for span in spans}) == 1
    for span in spans:
        assert any(span.trace_id)
        assert any(span.span_id)
        assert 0 < span.start_time_unix_nano <= span.end_time_unix_nano
        assert span.kind != Span.SPAN_KIND_UNSPECIFIED
        assert span is root or span.parent_span_id in own, f"{span.name}: its parent is not there"
        assert (span.status.code == 2) == ("error.type" in facts(span))
        assert facts(span)["messaging.system"] == "rabbitmq"
        parent = own.get(span.parent_span_id)
        if parent is not None:
            assert parent.start_time_unix_nano <= span.start_time_unix_nano, f"{span.name} begins before {parent.name}"
        for link in span.links:
            assert link.span_id in own or link.span_id == root.parent_span_id or span.name.startswith("publish")


def _value(value: AnyValue) -> Any:
    if value.WhichOneof("value") == "array_value":
        return [_value(each) for each in value.array_value.values]
    return getattr(value, str(value.WhichOneof("value")))
