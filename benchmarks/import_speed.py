"""What policies add to an import of definitions: seconds of processor time, and the ratio.

    python benchmarks/import_speed.py [--queues 10000] [--policies 50] [--runs 3] [--release 4.3]

One document of queues, each with a binding, is imported into new brokers in turn: without policies, with policies
whose patterns are found in some names each, and once more into a broker that has all of it.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

from figures import Figure

from simulator.broker import Broker
from simulator.broker.commands import ImportDefinitions

TEAMS = 60


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--queues", type=int, default=10_000)
    parser.add_argument("--policies", type=int, default=50)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--release", default="4.3")
    options = parser.parse_args()
    taken = medians(options.release, options.queues, options.policies, options.runs)
    for name, seconds in taken.items():
        times = seconds / taken["without policies"]
        print(f"{name:<24}{seconds:8.2f} s  {times:6.2f} times the import without policies")


def figures() -> list[Figure]:
    """What the policies add to an import of 10,000 queues."""
    plain, full, _again = medians("4.3", 10_000, 50, 1).values()
    what = "an import of 10,000 queues with 50 policies, relative to one without policies"
    found = f"{full / plain:.1f} ({full:.1f} s of processor time)"
    return [Figure(what, "≤ 3", found, "`benchmarks/import_speed.py`")]


def medians(release: str, queues: int, policies: int, runs: int) -> dict[str, float]:
    """Seconds of processor time for each kind of import."""
    rounds = [once(release, queues, policies) for _ in range(runs)]
    return {name: statistics.median(each[name] for each in rounds) for name in rounds[0]}


def once(release: str, queues: int, policies: int) -> dict[str, float]:
    """Seconds of processor time for each kind of import."""
    plain, full = document(queues, 0), document(queues, policies)
    broker = Broker(release)
    return {
        "without policies": import_s(Broker(release), plain),
        f"with {policies} policies": import_s(broker, full),
        "all of it once more": import_s(broker, full),
    }


def import_s(broker: Broker, given: dict[str, Any]) -> float:
    """Seconds of processor time that an import takes."""
    before = time.process_time()
    broker.handle(ImportDefinitions(given), 0)
    return time.process_time() - before


def document(
    queues: int, policies: int, vhost: str = "/", types: tuple[str, ...] = ("classic", "quorum")
) -> dict[str, Any]:
    """Queues of these types in turn, in teams, each bound to one exchange, and policies for some teams."""
    names = [f"team{number % TEAMS}.orders{number}" for number in range(queues)]
    kinds = [{} if each == "classic" else {"x-queue-type": each} for each in types]
    definitions = [{"max-length": n + 1} for n in range(policies)]
    common = {"vhost": vhost, "durable": True, "auto_delete": False}
    bound = {"vhost": vhost, "source": "orders", "destination_type": "queue", "arguments": {}}
    return {
        "vhosts": [{"name": vhost}],
        "policies": [
            {"vhost": vhost, "name": f"p{n}", "pattern": rf"^team{n}\.", "priority": n, "definition": each}
            for n, each in enumerate(definitions)
        ],
        "exchanges": [{**common, "name": "orders", "type": "topic", "internal": False, "arguments": {}}],
        "queues": [{**common, "name": name, "arguments": kinds[n % len(kinds)]} for n, name in enumerate(names)],
        "bindings": [{**bound, "destination": name, "routing_key": name} for name in names],
    }


if __name__ == "__main__":
    main()
