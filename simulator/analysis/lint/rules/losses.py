"""Rules about dead letters that are lost on their way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from dlx.binding_index import hashes
from dlx.deaths import DELIVERY_LIMIT, EXPIRED, MAXLEN, REJECTED
from dlx.delays import routing_type
from dlx.nearest_names import nearest, suggestion
from dlx.server_plugins import AT_RANDOM
from dlx.settings import (
    AT_LEAST_ONCE,
    DEAD_LETTER_EXCHANGE,
    DEAD_LETTER_ROUTING_KEY,
    MAX_LENGTH,
    MAX_LENGTH_BYTES,
    OVERFLOW,
    SERVER_DEFAULT,
    Settings,
    alternate_exchange,
)
from dlx.settings import (
    DELIVERY_LIMIT as DELIVERY_LIMIT_KEY,
)
from dlx.topology import CLASSIC, QUORUM
from simulator.analysis.entries import ladder_levels
from simulator.analysis.findings import Fix, ObjectName, few
from simulator.analysis.lint.fixes import (
    dead_letter_to,
    is_unbound,
    literal_wildcards,
    named_keys,
    obvious_address,
    route_dead_letters,
    send_elsewhere,
    set_keys,
)
from simulator.analysis.lint.rule import (
    Found,
    QueueAt,
    Subject,
    by_its_policy,
    change,
    components,
    is_stream,
    keep_out_of_policy,
    mended,
    queue_name,
    rule,
    said_by,
    shown,
    take_away,
)
from simulator.analysis.losses import HELD, MISSING, REFUSED, REMOVED, Loss, is_unroutable
from simulator.analysis.names import is_named_for_dead_letters
from simulator.broker import WORKER_PREFETCH

NAMED_MAX = 3
HOLD_UP = f"{WORKER_PREFETCH} of them hold up all others."
"""What becomes of a queue whose dead letters are held."""
_DEFAULT_IN_BINDINGS = "amq.default"
"""What the management API calls the default exchange where a name must not be empty."""
HOW = {
    EXPIRED: "expire",
    MAXLEN: "are pushed out by the length limit",
    DELIVERY_LIMIT: "exceed the delivery limit",
    REJECTED: "are rejected",
}


def _losses(subject: Subject, *fates: str) -> Iterator[tuple[QueueAt, Settings, list[Loss]]]:
    """Yield each queue in which messages meet one of the fates, with these losses."""
    for queue, settings in subject.queues():
        found = [loss for loss in subject.lost_at[queue] if loss.fate in fates] if queue in subject.lost_at else []
        if found:
            yield queue, settings, found


def _reasons(losses: Iterable[Loss]) -> str:
    return " or ".join(HOW[reason] for reason in dict.fromkeys(loss.reason for loss in losses))


@rule("DLX001", "missing-dlx")
def missing_dlx(subject: Subject) -> Iterator[Found]:
    """The dead-letter exchange of a queue does not exist.

    Why: RabbitMQ looks the exchange up when a message dies, not when the queue is declared. Nobody is told when it
    is not there: every dead letter of the queue is gone, or held in the queue if it dead-letters at least once.
    Some servers leave internal exchanges out of their exports, and not what binds them. It is an error all the same:
    an exchange without bindings loses what it gets. It is a warning where a policy may give it an alternate exchange.
    Example: queue 'billing' has x-dead-letter-exchange 'billing.dxl', while the exchange is called 'billing.dlx'.
    Fix: correct the name, or declare the exchange and bind a queue to it.
    """
    for (vhost, name), settings in subject.queues():
        dlx = settings.dead_letter_exchange
        exchanges = subject.snapshot.flows[vhost].topology.exchanges
        if is_stream(settings) or dlx is None or dlx in exchanges or subject.is_left_out("exchange", vhost, dlx):
            continue
        held = settings.dead_letter_strategy == AT_LEAST_ONCE
        at = subject.held_at if held else subject.lost_at
        lost = [each for each in at.get((vhost, name), ()) if each.fate == (HELD if held else MISSING)]
        fate = f"every dead letter is held in '{name}' until it does" if held else "every dead letter is lost"
        meant, fix = _meant_exchange(subject, (vhost, name), dlx)
        yield Found(
            severity="error" if any(each.history for each in lost) else "warning",
            about=queue_name((vhost, name)),
            message=f"'{name}' sends its dead letters to exchange '{dlx}', which does not exist: {fate}." + meant,
            because=said_by(settings.values[DEAD_LETTER_EXCHANGE]),
            fix=fix,
            history=lost[0].history if lost else (),
            held=held,
        )


def _meant_exchange(subject: Subject, queue: QueueAt, dlx: str) -> tuple[str, Fix]:
    """Return what is meant by a dead-letter exchange that does not exist, as a sentence, and the fix."""
    topology = subject.snapshot.topologies[queue[0]]
    if dlx == _DEFAULT_IN_BINDINGS:
        return " The default exchange is called ''.", set_keys(subject, queue, {DEAD_LETTER_EXCHANGE: ""})
    if dlx in topology.queues and dlx != queue[1]:
        wanted = {DEAD_LETTER_EXCHANGE: "", DEAD_LETTER_ROUTING_KEY: dlx}
        return f" '{dlx}' is a queue: the default exchange '' leads to it.", set_keys(subject, queue, wanted)
    near = _near(dlx, [each for each in topology.exchanges if each and not each.startswith("amq.")])
    return near, Fix(True, f"declare exchange '{dlx}' and bind a queue to it, or correct the name")


def _near(name: str, known: Iterable[str]) -> str:
    """Return the names that come near as a question; empty where none does."""
    found = suggestion(name, known)
    return f" {found[0].upper()}{found[1:]}" if found.startswith("did you mean") else ""


@rule("DLX002", "no-dlx-on-rejecting")
def no_dlx_on_rejecting(subject: Subject) -> Iterator[Found]:
    """A quorum queue, or a queue with a TTL or a length limit, has no dead-letter exchange.

    Why: messages die there without anybody's decision (they expire, are pushed out, are returned too often), and
    RabbitMQ drops what dies in a queue without a dead-letter exchange.
    Example: queue 'orders' with x-message-ttl 60000 and no dead-letter exchange: what nobody consumes within a
    minute is gone.
    Fix: give the queue a dead-letter exchange with a queue behind it, by a policy.
    """
    for queue, settings in subject.queues():
        if is_stream(settings) or settings.dead_letters or subject.is_parking(queue):
            continue
        lost = [loss for loss in subject.lost_at.get(queue, ()) if loss.fate == "no dead-letter exchange"]
        name = settings.queue.name
        if lost:
            message = f"'{name}' has no dead-letter exchange: messages that {_reasons(lost)} are lost."
        elif settings.queue.type == QUORUM and subject.happens(queue, REJECTED):
            message = f"quorum queue '{name}' has no dead-letter exchange: messages that consumers reject are lost."
        else:
            continue
        yield Found(
            severity="error" if lost else "warning",
            about=queue_name(queue),
            message=message,
            because=str(lost[0].rule) if lost else "no argument, policy or operator policy sets dead-letter-exchange",
            fix=_give_exchange(subject, queue),
            history=lost[0].history if lost else (),
        )


def _give_exchange(subject: Subject, queue: QueueAt) -> Fix:
    """Return the fix for a queue without a dead-letter exchange: it names one where it is plain which."""
    address = obvious_address(subject, queue)
    if address is not None:
        return dead_letter_to(subject, queue, address)
    where = by_its_policy(subject, queue)
    return Fix(True, f"{where}: set dead-letter-exchange to an exchange that a queue is bound to")


@rule("DLX003", "unroutable-dead-letter")
def unroutable_dead_letter(subject: Subject) -> Iterator[Found]:
    """The dead-letter exchange exists, but no queue is bound to it for the routing key that dead letters have.

    Why: an exchange drops what it cannot route, and nobody is told. A dead letter keeps the routing keys that it was
    published with, unless the queue has a dead-letter routing key. A queue that dead-letters at least once keeps such
    dead letters, and when it has a few dozen, they hold up all others.
    Example: dead-letter exchange 'orders.dlx' is direct and bound with 'orders'; messages come with 'order.paid'.
    Only topic exchanges know wildcards: bound to a direct exchange, '#' is a key like any other.
    Fix: bind a queue for these keys, or set a dead-letter routing key that is bound.
    """
    for queue, settings in subject.queues():
        lost = _unroutable(subject, queue)
        if not lost:
            continue
        keys = list(dict.fromkeys(key for loss in lost for key in loss.keys))
        deciding = (settings.values.get(each) for each in (DEAD_LETTER_EXCHANGE, DEAD_LETTER_ROUTING_KEY))
        held = lost[0].fate == HELD
        yield Found(
            severity="error" if lost[0].history else "warning",
            about=queue_name(queue),
            message=_unroutable_said(subject, queue, keys, held=held),
            because="; ".join(said_by(each) for each in deciding if each),
            fix=mended(lost, route_dead_letters(subject, queue, keys)),
            history=lost[0].history,
            some_keys=queue in subject.delivering,
            held=held,
        )


def _unroutable_said(subject: Subject, queue: QueueAt, keys: list[str], *, held: bool) -> str:
    """Say which dead letters of the queue, of those with these keys, reach no queue, and what becomes of them."""
    vhost, name = queue
    flow = subject.snapshot.flows[vhost]
    settings = flow.settings(name)
    dlx, replaced = settings.dead_letter_exchange or "", settings.values.get(DEAD_LETTER_ROUTING_KEY)
    if is_unbound(subject, vhost, dlx):
        fate = f"is held in '{name}' until a queue is. {HOLD_UP}" if held else "is lost."
        return f"nothing is bound to exchange '{dlx}': every dead letter of '{name}' {fate}"
    literal = literal_wildcards(subject, queue)[:1]
    draws = [each for each in sorted(flow.passed({dlx})) if routing_type(flow.topology.exchanges[each]) in AT_RANDOM]
    return (
        "some " * bool(draws)
        + f"dead letters of '{name}' {_which(subject, queue, keys)} reach no queue behind exchange '{dlx}': "
        + (f"they are held in '{name}' until one does. {HOLD_UP}" if held else "they are lost.")
        + "".join(f" '{each}' chooses a destination for each at random." for each in draws[:1])
        + "".join(f" '{dlx}' is a direct exchange, to which '{key}' is a key like any other." for key in literal)
        + ("" if replaced is None else _near_key(subject, queue, str(replaced.value)))
        + _on_ladder(subject, queue)
    )


def _which(subject: Subject, queue: QueueAt, keys: list[str]) -> str:
    """Say which dead letters of the queue are lost: those with these keys, or such as these stand for."""
    topology, named = subject.snapshot.topologies[queue[0]], keys
    settings = subject.snapshot.flows[queue[0]].settings(queue[1])
    if settings.dead_letter_routing_key is None and not subject.clients.publish:
        exchange = topology.exchanges.get(settings.dead_letter_exchange or "")
        if exchange is not None and hashes(exchange):
            return f"for which '{exchange.name}' chooses a destination that leads nowhere"
        named = named_keys(subject, queue[0], keys)
    rest = len(named) - NAMED_MAX
    more = f" and {rest} other kind{'s' if rest > 1 else ''} of key" if rest > 0 else ""
    told = "routing key " + ", ".join(f"'{key}'" for key in named[:NAMED_MAX]) + more
    if len(named) == len(keys):
        return f"with {told}"
    return f"with {told}, or another that no binding there takes," if named else "with keys that no binding there takes"


def _unroutable(subject: Subject, queue: QueueAt) -> list[Loss]:
    """Return the ways in which dead letters of a queue come to its exchange and no further."""
    flow = subject.snapshot.flows[queue[0]]
    found = (*subject.held_at.get(queue, ()), *subject.lost_at.get(queue, ()))
    return [loss for loss in found if is_unroutable(loss, flow)]


def _on_ladder(subject: Subject, queue: QueueAt) -> str:
    """Say that dead letters of the queue go to a ladder of delays; empty where they do not, or keys are stated."""
    topology = subject.snapshot.topologies[queue[0]]
    exchange = topology.exchanges.get(subject.snapshot.flows[queue[0]].settings(queue[1]).dead_letter_exchange or "")
    bits = 0 if exchange is None or subject.clients.publish else ladder_levels(exchange, topology)
    return f" It is a ladder of delays, whose keys begin with {bits} bits: state which keys clients publish." * bool(
        bits
    )


def _near_key(subject: Subject, queue: QueueAt, key: str) -> str:
    """Return the queues, or the keys that are bound, that a dead-letter routing key may have been meant for."""
    topology = subject.snapshot.topologies[queue[0]]
    dlx = subject.snapshot.flows[queue[0]].settings(queue[1]).dead_letter_exchange
    bound = (each.routing_key for each in topology.bindings.get(dlx or "", ()))
    near = nearest(key, bound if dlx else topology.queues)[:1]
    return "".join(f" Did you mean {'routing key' if dlx else 'queue'} '{name}'?" for name in near)


@rule("DLX036", "lost-if-published-by-queue-name")
def lost_if_published_by_queue_name(subject: Subject) -> Iterator[Found]:
    """Dead letters have the name of their queue as routing key after a publish to it by name, and no queue takes that.

    Why: frameworks that republish, shovels, "Move messages" of the management page and `dlx redrive` publish to a queue
    by its name. Its dead letters keep that name as their key, and the dead-letter exchange knows the usual keys alone.
    Example: 'jobs' is bound by 'job.new', and its dead-letter exchange is bound by 'job.new': what a framework has
    published again to 'jobs' and a consumer then rejects is lost.
    Fix: bind the queue for dead letters for the name of the queue as well, or set a dead-letter routing key.
    """
    alike: dict[tuple[str, str], dict[str, Loss]] = {}
    for loss in subject.losses.by_name:
        queue = loss.vhost, loss.queue
        if not _unroutable(subject, queue):  # else DLX003 tells it
            exchange = subject.snapshot.flows[loss.vhost].settings(loss.queue).dead_letter_exchange or ""
            alike.setdefault((loss.vhost, exchange), {}).setdefault(loss.publish.routing_key, loss)
    for (vhost, exchange), losses in alike.items():
        name, loss = next(iter(losses.items()))
        fate = "held there" if loss.fate == HELD else "lost"
        more = f"; so it is with {_some(list(losses)[1:])}" if len(losses) > 1 else ""
        yield Found(
            severity="note",
            about=ObjectName("exchange", vhost, exchange),
            message=f"what is published to '{name}' by its name (a framework that republishes, \"Move messages\", a "
            f"shovel, `dlx redrive`) and then dies in '{loss.queue}' is {fate}: exchange '{exchange}' routes key "
            f"'{name}' to no queue{more}.",
            because=f"the default exchange leads to '{name}' by its name, and dead letters keep their key",
            fix=route_dead_letters(subject, (vhost, loss.queue), list(losses)),
        )


@rule("DLX004", "automatic-cycle")
def automatic_cycle(subject: Subject) -> Iterator[Found]:
    """Dead letters come back to a queue in which they died before, without a rejection on the way.

    Why: RabbitMQ drops such a dead letter as a cycle, silently. Only a rejection by a consumer lets it pass. A queue
    that dead-letters at least once holds it instead, for ever: no binding ends a cycle.
    Example: 'orders' expires into 'retry', and 'retry' expires back into 'orders': the message is gone after one
    round, if no consumer rejected it.
    Fix: send what expires (or is dropped) somewhere else than back, for example to a parking queue.
    """
    for queue, settings in subject.queues():
        lost = [loss for loss in _cycles(subject, queue) if loss.target != loss.queue]
        if lost:
            first = lost[0]
            held = first.fate == HELD
            names = dict.fromkeys([hop.queue for hop in first.path] + [first.queue])
            round_trip = " → ".join([*(f"'{name}'" for name in names), f"'{first.target}'"])
            fate = f"each stays in '{queue[1]}', held for ever. {HOLD_UP}" if held else "they are dropped as a cycle."
            yield Found(
                severity="error" if first.history else "warning",
                about=queue_name(queue),
                message=f"messages that {_reasons(lost)} in '{settings.queue.name}' would return to '{first.target}' "
                f"without a rejection on the way ({round_trip}): {fate}",
                because=str(first.rule),
                fix=mended(
                    lost,
                    take_away(
                        subject, queue, DEAD_LETTER_EXCHANGE, f"let dead letters of '{queue[1]}' go to another queue"
                    ),
                ),
                history=first.history,
                held=held,
            )
    yield from _partial_cycles(subject)


def _cycles(subject: Subject, queue: QueueAt) -> list[Loss]:
    """Return the ways in which dead letters of a queue would close a cycle, the whole of them."""
    held = [loss for loss in subject.held_at.get(queue, ()) if loss.target is not None and loss.whole]
    return held or [loss for loss in subject.lost_at.get(queue, ()) if _is_cycle(loss)]


def _is_cycle(loss: Loss) -> bool:
    return loss.fate == "cycle"


def _partial_cycles(subject: Subject) -> Iterator[Found]:
    """Yield dead letters of which one copy is dropped while another one arrives; nothing is lost as a whole."""
    told: set[tuple[QueueAt, str | None]] = set()
    for loss in subject.losses.partial:
        queue = loss.vhost, loss.queue
        if _is_cycle(loss) and (queue, loss.target) not in told and queue not in subject.lost_at:
            told.add((queue, loss.target))
            unbind = Fix(True, f"unbind '{loss.target}' from the dead-letter exchange of '{loss.queue}'")
            yield Found(
                severity="warning",
                about=queue_name(queue),
                message=f"of messages that {_reasons([loss])} in '{loss.queue}', the copy for '{loss.target}' is "
                "dropped as a cycle; other copies arrive.",
                because=str(loss.rule),
                fix=keep_out_of_policy(subject, queue, DEAD_LETTER_EXCHANGE) or unbind,
            )


@rule("DLX006", "self-dlx")
def self_dlx(subject: Subject) -> Iterator[Found]:
    """The dead letters of a queue come back to the queue itself.

    Why: what a consumer rejects is delivered to it again at once, for ever, as fast as the broker can; what expires
    or is dropped by a limit would come back without a rejection, so RabbitMQ drops it as a cycle, or holds it if the
    queue dead-letters at least once. Before 3.11 such a queue holds each dead letter that it takes itself, for ever.
    Example: queue 'orders' with x-dead-letter-exchange '' and no dead-letter routing key: the default exchange
    routes the dead letter to the queue that the message was published to.
    Fix: name another queue by a dead-letter routing key, or another dead-letter exchange.
    """
    for queue, settings in subject.queues():
        lost = [loss for loss in _cycles(subject, queue) if loss.target == loss.queue]
        unheard = [loss for loss in subject.held_at.get(queue, ()) if loss.target == loss.queue and not loss.whole]
        if not lost and not unheard and queue[1] not in subject.sources.get(queue, ()):
            continue
        key = DEAD_LETTER_ROUTING_KEY if DEAD_LETTER_ROUTING_KEY in settings.values else DEAD_LETTER_EXCHANGE
        own = said_by(settings.values[key]) if key in settings.values else "its own binding"
        found = [*unheard, *lost]
        yield Found(
            severity="error" if found and found[0].history else "warning",
            about=queue_name(queue),
            message=f"dead letters of '{queue[1]}' come back to '{queue[1]}' itself: "
            + (_unheard(subject, queue) if unheard else _fate_of_own(lost)),
            because=str(unheard[0].rule) if unheard else own,
            fix=send_elsewhere(subject, queue),
            history=found[0].history if found else (),
            held=bool(found) and found[0].fate == HELD,
        )


def _unheard(subject: Subject, queue: QueueAt) -> str:
    """Say what becomes of dead letters where the release does not count that their own queue has taken them."""
    release = subject.snapshot.release.name
    return (
        f"RabbitMQ {release} does not count that it has taken them, and holds each in '{queue[1]}' for ever, though "
        f"all their queues have it. {HOLD_UP}"
    )


def _fate_of_own(lost: list[Loss]) -> str:
    """Say what becomes of dead letters that come back to their own queue, or would do so."""
    if not lost:
        return "a rejected message loops for ever."
    if lost[0].fate == HELD:
        return f"messages that {_reasons(lost)} are held for ever. {HOLD_UP}"
    return f"messages that {_reasons(lost)} are dropped as a cycle."


@rule("DLX010", "default-delivery-limit")
def default_delivery_limit(subject: Subject) -> Iterator[Found]:
    """A quorum queue has no delivery limit of its own, so the server's default applies: 20, the default since 4.0.

    Why: a message that consumers return more than 20 times (a crash returns it, too) dies. Without a dead-letter
    exchange it is lost; with one it leaves the queue, which it never did before 4.0. This is a note: that it is lost,
    another rule says as an error.
    Example: quorum queue 'orders' without x-delivery-limit, whose consumer requeues until a service is back.
    Fix: set the limit that is meant with a policy; -1 stands for no limit.
    """
    for queue, settings in subject.queues():
        setting = settings.values.get(DELIVERY_LIMIT_KEY)
        if setting is None or setting.origin != SERVER_DEFAULT or setting.value is None or subject.is_parking(queue):
            continue
        if not subject.happens(queue, DELIVERY_LIMIT):
            continue
        name, limit = settings.queue.name, setting.value
        lost = [loss for loss in subject.lost_at.get(queue, ()) if loss.reason == DELIVERY_LIMIT]
        fate = "is lost" if lost else "is dead-lettered"
        and_exchange = "" if settings.dead_letters else " and a dead-letter exchange"
        yield Found(
            severity="note",  # the loss is reported by the rule about what becomes of the dead letter
            about=queue_name(queue),
            message=f"'{name}' has a delivery limit that nobody set: {limit}, the default since 4.0. "
            f"A message returned more often {fate}.",
            because=said_by(setting),
            fix=Fix(True, f"{by_its_policy(subject, queue)}: set delivery-limit (-1 for none){and_exchange}"),
            history=lost[0].history if lost else (),
        )


@rule("DLX014", "reject-publish-on-dead-letter-queue")
def reject_publish_on_dead_letter_queue(subject: Subject) -> Iterator[Found]:
    """A queue that takes dead letters refuses messages when it is full (overflow reject-publish).

    Why: a publisher with confirms is told of the refusal; a dead letter has no publisher, so it is lost. Only
    at-least-once dead-lettering sends it again.
    Example: parking queue 'orders.dead' with x-max-length 1000 and x-overflow reject-publish: the 1001st dead letter
    is gone.
    Fix: use drop-head with a dead-letter exchange of its own, raise the limit, or dead-letter at least once.
    """
    told: set[QueueAt] = set()
    for loss in subject.lost:
        if loss.fate != REFUSED or loss.target is None or (loss.vhost, loss.target) in told:
            continue
        told.add((loss.vhost, loss.target))
        settings = subject.snapshot.flows[loss.vhost].settings(loss.target)
        yield Found(
            severity="error",
            about=queue_name((loss.vhost, loss.target)),
            message=f"while '{loss.target}' is full it refuses dead letters, such as those of '{loss.queue}': "
            "they are lost.",
            because=said_by(settings.values[OVERFLOW]),
            fix=change(
                subject, (loss.vhost, loss.target), OVERFLOW, "set overflow to drop-head, or remove the length limit"
            ),
            history=loss.history,
        )


@rule("DLX037", "held-while-target-is-full")
def held_while_target_is_full(subject: Subject) -> Iterator[Found]:
    """A queue refuses the dead letters of a queue that dead-letters at least once, while it is full.

    Why: they are held where they died until there is room again. Meanwhile they count towards the length limit there,
    and 32 of them hold up all others. A parking queue has no room again before messages are taken out of it. A classic
    queue with x-max-length 0 never has room, and with x-max-length-bytes 0 none for a message that has a body.
    Example: quorum queue 'orders' dead-letters at least once into 'orders.dead' with x-max-length 1000 and x-overflow
    reject-publish: once that is full, what dies in 'orders' is held there.
    Fix: remove the length limit of the queue that takes the dead letters, and watch its length instead.
    """
    refused = _refused_while_full(subject)
    told = {(queue, name) for each in _waiting_for_each_other(refused) for queue in each for _, name in each}
    for queue, names in refused.items():
        sources = [name for name in names if (queue, name) not in told]
        if sources:
            settings = subject.snapshot.flows[queue[0]].settings(queue[1])
            where = f"in '{sources[0]}'" if len(sources) == 1 else "where they died"
            stays = subject.is_parking(queue) and settings.message_ttl_ms is None and settings.expires_ms is None
            parking = " It is a parking queue: it stays full until messages are taken out of it."
            full = f"while '{queue[1]}' is full it refuses the dead letters of {_some(sources)}: they are held {where}"
            if settings.queue.type == CLASSIC and 0 in (settings.max_length, settings.max_length_bytes):
                none = "no message" if settings.max_length == 0 else "no message that has a body"
                full = f"'{queue[1]}' takes {none}: the dead letters of {_some(sources)} are held {where} for ever"
                stays = False
            yield Found(
                severity="warning",
                about=queue_name(queue),
                message=f"{full}, and {WORKER_PREFETCH} of them hold up all others." + parking * stays,
                because=said_by(settings.values[OVERFLOW]),
                fix=_lift_limit(subject, queue),
            )


@rule("DLX038", "full-queues-wait-for-each-other")
def full_queues_wait_for_each_other(subject: Subject) -> Iterator[Found]:
    """Queues that dead-letter at least once, and refuse when they are full, dead-letter into each other.

    Why: when each is full of messages that died there, each refuses the dead letters of the other. Nothing leaves
    either of them any more, and both refuse what is published.
    Example: 'orders' and 'orders.retry' dead-letter at least once into each other, both with x-max-length 1000.
    Fix: remove the length limit of one of them, or let its dead letters go to another queue.
    """
    for queues in _waiting_for_each_other(_refused_while_full(subject)):
        vhost, first = queues[0]
        names = [name for _, name in queues]
        several = _some(names) if len(names) > NAMED_MAX else f"{_some(names[:-1])} and '{names[-1]}'"
        message = (
            f"{several} dead-letter at least once into each other, and refuse dead letters while they are full: once "
            "they are full of messages that died there, nothing leaves them any more, for ever."
            if len(names) > 1
            else f"'{first}' dead-letters at least once into itself, and refuses dead letters while it is full: once "
            "it is full of messages that died there, nothing leaves it any more, for ever."
        )
        yield Found(
            severity="warning",
            about=queue_name(queues[0]),
            message=message,
            because=said_by(subject.snapshot.flows[vhost].settings(first).values[OVERFLOW]),
            fix=_lift_limit(subject, queues[0]),
        )


def _refused_while_full(subject: Subject) -> dict[QueueAt, list[str]]:
    """Return the queues that refuse at-least-once dead letters when they are full, with the queues these come from."""
    found: dict[QueueAt, list[str]] = {}
    for (vhost, target), names in subject.sources.items():
        flow = subject.snapshot.flows[vhost]
        settings = flow.settings(target)
        sources = sorted(name for name in names if flow.settings(name).dead_letter_strategy == AT_LEAST_ONCE)
        if sources and settings.has_length_limit and settings.refuses_when_full:
            found[vhost, target] = sources
    return found


def _waiting_for_each_other(refused: Mapping[QueueAt, list[str]]) -> Iterator[list[QueueAt]]:
    """Yield the queues of which each refuses the dead letters of another one, in circles."""

    def sources(queue: QueueAt) -> Iterator[QueueAt]:
        return ((queue[0], name) for name in refused.get(queue, ()))

    yield from (sorted(each) for each in components(refused, sources))
    yield from ([(vhost, name)] for (vhost, name), names in refused.items() if name in names)


def _lift_limit(subject: Subject, queue: QueueAt) -> Fix:
    settings = subject.snapshot.flows[queue[0]].settings(queue[1])
    key = MAX_LENGTH if settings.max_length is not None else MAX_LENGTH_BYTES
    return take_away(subject, queue, key, f"remove {key}, and watch the length of '{queue[1]}' instead")


@rule("DLX016", "bounded-dead-letter-queue")
def bounded_dead_letter_queue(subject: Subject) -> Iterator[Found]:
    """A queue that keeps dead letters drops them by a length limit or a TTL.

    Why: what has failed is kept there for somebody to look at; the limit throws the oldest away, and nobody is told.
    A TTL alone is a note: who sets one says how long that is to be.
    Example: parking queue 'orders.dead' with x-max-length 1000 and no dead-letter exchange: the first thousand dead
    letters of an incident push out each other.
    Fix: remove the limit, or give the queue a dead-letter exchange of its own; watch its length instead.
    """
    for queue, settings, lost in _losses(subject, "no dead-letter exchange"):
        if subject.is_parking(queue):
            name = settings.queue.name
            key = next((loss.rule.setting.key for loss in lost if loss.rule.setting is not None), MAX_LENGTH)
            yield Found(
                severity="note" if {loss.reason for loss in lost} == {EXPIRED} else "error",
                about=queue_name(queue),
                message=f"'{name}' keeps dead letters, but those that {_reasons(lost)} are lost.",
                because=str(lost[0].rule),
                fix=_keep_more(subject, queue, key),
                history=lost[0].history,
            )


def _keep_more(subject: Subject, queue: QueueAt, key: str) -> Fix:
    """Return the fix for a limit of a queue that keeps dead letters: a policy can do without one, not lift it."""
    setting = subject.snapshot.flows[queue[0]].settings(queue[1]).values.get(key)
    if setting is None or setting.origin.kind != "argument":
        return take_away(subject, queue, key, f"remove {key}, or give '{queue[1]}' a dead-letter exchange")
    where = by_its_policy(subject, queue)
    return Fix(True, f"{where}: set dead-letter-exchange to an exchange that leads to a queue without a limit")


@rule("DLX023", "queue-removed-with-messages")
def queue_removed_with_messages(subject: Subject) -> Iterator[Found]:
    """A queue is deleted while messages are in it: it expires unused, or its last consumer leaves.

    Why: messages of a deleted queue are not dead-lettered. They are gone. Publishes do not count as use, so a message
    can come just before the queue expires, whatever its TTL is.
    Example: queue 'replies' with x-expires 60000: if its consumer is away for a minute, queue and messages are gone.
    Fix: do not let the queue be deleted, or keep nothing in it that may be lost.
    """
    for queue, settings, lost in _losses(subject, REMOVED):
        rule_ = lost[0].rule
        key = rule_.setting.key if rule_.setting is not None else ""
        fix = Fix(False, "delete the queue and declare it without auto-delete")
        yield Found(
            severity="error",
            about=queue_name(queue),
            message=f"'{settings.queue.name}' can be deleted with messages in it: they are lost.",
            because=str(lost[0].rule),
            fix=take_away(subject, queue, key, f"remove {key}") if key else fix,
            history=lost[0].history,
        )


@rule("DLX024", "stream-loses-dead-letters")
def stream_loses_dead_letters(subject: Subject) -> Iterator[Found]:
    """Dead letters are routed to a stream, which drops them in this release.

    Why: streams take dead letters only from the release on that the table of releases names; before, they are gone.
    Example: stream 'audit' bound to dead-letter exchange 'dlx' on 3.12.
    Fix: bind a quorum or classic queue instead, or dead-letter at least once from a quorum queue.
    """
    partial = [loss for loss in subject.losses.partial if loss.fate == "lost in a stream"]
    told: set[QueueAt] = set()
    for loss in (*(each for each in subject.lost if each.fate == "lost in a stream"), *partial):
        queue = loss.vhost, loss.queue
        if queue not in told:
            told.add(queue)
            yield Found(
                severity="error" if loss.history else "warning",
                about=queue_name(queue),
                message=f"dead letters of '{loss.queue}' go to stream '{loss.target}', which drops them in this "
                + ("release." if loss.whole else "release; other copies arrive."),
                because=str(loss.rule),
                fix=Fix(True, f"bind a quorum or classic queue in place of stream '{loss.target}'"),
                history=loss.history,
            )


@rule("DLX026", "possible-loss")
def possible_loss(subject: Subject) -> Iterator[Found]:
    """The rules allow that messages are lost, but no history that loses one was found.

    Why: bringing it about takes more messages, or more copies of one, than were tried. It may happen all the same.
    Example: a queue with x-max-length 3000000000 and no dead-letter exchange.
    Fix: as for a loss that is shown: give the queue a dead-letter exchange, or send dead letters elsewhere.
    """
    told: set[tuple[QueueAt, str]] = set()
    for loss in subject.unproven:
        queue = loss.vhost, loss.queue
        if (queue, loss.fate) in told:
            continue
        told.add((queue, loss.fate))
        how = f"that {_reasons([loss])} " if loss.reason else ""
        yield Found(
            severity="warning",
            about=queue_name(queue),
            message=f"messages {how}in '{loss.queue}' may be lost ({loss.fate}); no history of it was found.",
            because=str(loss.rule),
            fix=Fix(True, f"look at where dead letters of '{loss.queue}' go, with `dlx graph --queue`"),
        )


@rule("DLX027", "not-fully-checked")
def not_fully_checked(subject: Subject) -> Iterator[Found]:
    """Messages can go more ways than lint follows, so that losses may be missing from its answer.

    Why: where each of many queues can be the next for a dead letter, the ways multiply. No finding means little then.
    Example: a dozen queues with a TTL whose shared dead-letter exchange leads to all of them.
    Fix: lint the parts on their own, or ask `dlx fuzz` about the publishes that matter.
    """
    for vhost, walk in subject.losses.walks.items():
        if not walk.complete:
            last = walk.places[-1].queue
            yield Found(
                severity="warning",
                about=ObjectName("vhost", vhost, vhost),
                message=f"messages can go more than {len(walk.places):,} ways, for example through '{last}': only "
                "these were followed.",
                because="dead letters of many queues can go to many queues",
                fix=Fix(True, "lint the parts of the topology on their own"),
            )


@rule("DLX031", "unused-dead-letter-exchange")
def unused_dead_letter_exchange(subject: Subject) -> Iterator[Found]:
    """An exchange is called after dead letters and leads to a queue, and no queue sends its dead letters there.

    Why: to declare the exchange and its queue changes nothing by itself. Each queue that is to use them needs a
    dead-letter exchange of its own, by policy or argument; without it, what dies is dropped.
    Example: exchange 'dlx' with queue 'dead' behind it, while 'orders', which has a TTL, has no dead-letter exchange.
    Fix: set dead-letter-exchange for the queues that are meant, by policy.
    """
    for vhost, flow in subject.snapshot.flows.items():
        topology = flow.topology
        lacking = [name for name in topology.queues if _may_lack(subject, (vhost, name))]
        policies = (*topology.policies, *topology.operator_policies)
        named = {str(each.definition.get(DEAD_LETTER_EXCHANGE, "")) for each in policies}
        used = flow.passed({*named, *(name for at, name in subject.dead_letter_exchanges if at == vhost)})
        inside = {
            each.destination for each in chain(*topology.bindings.values()) if each.destination_type == "exchange"
        }
        inside |= {alternate_exchange(each, topology, flow.release) or "" for each in topology.exchanges.values()}
        for name, exchange in topology.exchanges.items():
            about = ObjectName("exchange", vhost, name)
            if name in used | inside or not lacking or not is_named_for_dead_letters(name):
                continue
            behind = [each.destination for each in topology.bindings.get(name, ()) if each.destination_type == "queue"]
            if behind and about not in subject.snapshot.stand_ins:
                yield Found(
                    severity="note",
                    about=about,
                    message=f"'{name}' leads to '{behind[0]}', and no queue has it as its dead-letter exchange; "
                    f"{_some(lacking)} {'has' if len(lacking) == 1 else 'have'} none at all.",
                    because=f"no argument or policy names {exchange.type} exchange '{name}'; judged by its name",
                    fix=Fix(True, f"set dead-letter-exchange to '{name}' with a policy for the queues that are meant"),
                )


def _may_lack(subject: Subject, queue: QueueAt) -> bool:
    """Tell whether a dead-letter exchange may have been forgotten for a queue."""
    settings = subject.snapshot.flows[queue[0]].settings(queue[1])
    for_dead_letters = is_named_for_dead_letters(queue[1]) or subject.is_parking(queue)
    return not settings.dead_letters and not is_stream(settings) and not for_dead_letters


def _some(queues: list[str]) -> str:
    return few(list(map(shown, queues)), NAMED_MAX)
