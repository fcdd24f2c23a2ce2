"""Says the steps of a history in words, a line for each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from simulator.scenario import steps
from simulator.scenario.steps import AnyStep


def in_words(history: Iterable[AnyStep], indent: str = "") -> list[str]:
    """Return the history in words, a line for each step."""
    lines = []
    for step in history:
        if isinstance(step, steps.Repeat):
            lines.append(f"{indent}{step.times:,} times:")
            lines += in_words(step.steps, indent + "    ")
        else:
            lines.append(indent + _words(step))
    return lines


def _words(step: AnyStep) -> str:
    match step:
        case steps.Publish():
            where = f"exchange '{step.exchange}'" if step.exchange else "the default exchange"
            told = f"publish to {where} with routing key '{step.routing_key}'"
            told += f", headers {dict(step.headers)}" if step.headers else ""
            told += f", properties {more}" if (more := msgspec.to_builtins(step.properties)) else ""
            told += f", expiration {step.expiration_ms} ms" if step.expiration_ms is not None else ""
            told += f", {step.body_bytes:,} bytes" if step.body_bytes else ""
        case steps.Ack():
            told = f"the consumer of '{step.queue}' acknowledges"
        case steps.Reject():
            told = f"the consumer of '{step.queue}' rejects for good"
        case steps.Requeue():
            told = f"the consumer of '{step.queue}' requeues by basic.{step.method}"
        case steps.Crash():
            told = f"the consumer of '{step.queue}' crashes with its delivery"
        case steps.Hold():
            return f"a consumer of '{step.queue}' takes up to {step.times} and keeps them{_where(step)}"
        case steps.Get():
            told = f"a client takes from '{step.queue}' by basic.get"
        case steps.Leave():
            told = f"the consumer of '{step.queue}' leaves"
        case steps.Wait():
            return f"{step.ms:,} ms pass"
        case steps.SetPolicy():
            told = f"an operator sets {'operator ' * step.operator}policy '{step.policy.name}'"
        case steps.ClearPolicy():
            told = f"an operator clears {'operator ' * step.operator}policy '{step.name}'"
        case _:
            raise TypeError(f"not a step: {step!r}")
    times = getattr(step, "times", 1)
    return told + _where(step) + (f", {times:,} times" if times > 1 else "")


def _where(step: Any) -> str:
    return "" if step.vhost == "/" else f" in virtual host '{step.vhost}'"
