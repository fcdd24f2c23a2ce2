"""tests/clients/run: runs suites, prints what passed and failed, compares with the failures that are expected."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

from tests.clients import results
from tests.clients.broker import Broker, Named, Service, given_broker, service, simulator
from tests.clients.cache import UnobtainableError
from tests.clients.suites import OUT, SUITES, SYSTEMS, Run, certificates
from tests.live.servers import NoSuchServerError

EXIT_FAILURES, EXIT_UNAVAILABLE = 1, 69


def arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests/clients/run", description=__doc__)
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"{', '.join(SUITES)}; none: all of them")
    parser.add_argument("--url", metavar="AMQP_URL", help="a running server on this machine, guest with all rights; "
                        "the suites work in its virtual host / (default: a simulator of their own)")  # fmt: skip
    parser.add_argument("--management-url", default="", help="its management (default: at its port + 10000)")
    parser.add_argument("--clean", action="store_true", help="delete, after each suite, the queues and exchanges that "
                        "were not in the virtual host / before it; only where nobody else uses it")  # fmt: skip
    parser.add_argument("--release", default="4.3", help="of the simulator (default: 4.3)")
    parser.add_argument("--only", default="", metavar="TEXT", help="tests, as the suite's runner picks them")
    given = parser.parse_args(words)
    if unknown := set(given.suites) - set(SUITES):
        parser.error(f"no suite '{min(unknown)}'; there is {', '.join(SUITES)}")
    return given


def run_suite(suite: str, given: argparse.Namespace, known: Sequence[results.Expected]) -> Counter[str]:
    """Run one; print its counts and every failure that is not expected; the counts."""
    start = time.monotonic()
    with _what_it_is_for(suite, given) as broker:
        before = broker.named() if isinstance(broker, Broker) else set()
        outcomes = SUITES[suite](Run(suite, broker, given.only))
        if given.url and isinstance(broker, Broker):
            _leave(broker, sorted(broker.named() - before), given.clean)
    has = ("TLS",) if isinstance(broker, Broker) and broker.tls_port else ()
    outcomes = results.judged(suite, broker.release, outcomes, known, has=has)
    counts = Counter(outcome.status for outcome in outcomes)
    print(f"{suite} on {broker}: {_counted(counts)}  ({time.monotonic() - start:.0f} s)", flush=True)
    for outcome in outcomes:
        if outcome.status == "failed":
            lines = outcome.why.strip().splitlines()
            print(f"  {outcome.test}", *(f"    {line[:300]}" for line in lines[-12:]), sep="\n")
    return counts


def _leave(broker: Broker, appeared: Sequence[Named], clean: bool) -> None:
    """Delete what appeared during a suite, or say what stays: a broker does not tell who made a queue."""
    if clean:
        broker.delete(appeared)
    elif appeared:
        shown = ", ".join(f"{kind.removesuffix('s')} '{name}'" for kind, name in appeared[:5])
        more = f" and {len(appeared) - 5} more" if len(appeared) > 5 else ""
        print(f"  new in the virtual host / since then: {shown}{more}; --clean deletes them", file=sys.stderr)


def _what_it_is_for(suite: str, given: argparse.Namespace) -> AbstractContextManager[Broker | Service]:
    if suite in SYSTEMS:
        return service(SYSTEMS[suite], OUT / f"{suite}.service.log")
    if given.url:
        return nullcontext(given_broker(given.url, given.management_url))
    return simulator(given.release, OUT / f"{suite}.broker.log", tls=certificates(suite))


def _counted(counts: Counter[str]) -> str:
    """Failures that no broker here is spared count as skipped: a run is green with them."""
    text = f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped'] + counts['expected']} skipped"
    return text + (f" ({counts['expected']} of them tried)" if counts["expected"] else "")


def main(words: Sequence[str]) -> int:
    given = arguments(words)
    OUT.mkdir(parents=True, exist_ok=True)
    total: Counter[str] = Counter()
    known = results.expected()
    for suite in given.suites or SUITES:
        try:
            total += run_suite(suite, given, known)
        except (UnobtainableError, NoSuchServerError) as error:
            print(f"{suite}: cannot be run: {error}", file=sys.stderr)
            return EXIT_UNAVAILABLE
    print(f"{total['passed']} passed, {total['failed']} failed, {total['skipped'] + total['expected']} skipped")
    return EXIT_FAILURES if total["failed"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
