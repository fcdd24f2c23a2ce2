// rhea, the client of AMQP 1.0 for node: messages are published, settled, dead-lettered and drained.
//
// `tests/clients/run rhea` runs it with a client of its own.
"use strict";
const assert = require("node:assert");
const { randomUUID } = require("node:crypto");
const { after, before, test } = require("node:test");
const rhea = require("rhea");

const url = new URL(process.env.AMQP_URL);
const PATIENCE_MS = 5_000;
const queues = [];
let connection;

/** The context of an event, once it comes. Fails on an error that comes first. */
function event(emitter, name, ...failures) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`no ${name}`)), PATIENCE_MS);
    emitter.once(name, (context) => { clearTimeout(timer); resolve(context); });
    for (const failure of failures) {
      emitter.once(failure, () => { clearTimeout(timer); reject(emitter.error || new Error(failure)); });
    }
  });
}

/** A connection of its own. */
async function connect(options = {}) {
  const made = rhea.create_container().connect({
    host: url.hostname, port: url.port, username: url.username, password: url.password, reconnect: false, ...options });
  await event(made, "connection_open", "connection_error", "disconnected");
  return made;
}

/** The link, once the server has attached it. Fails if the server detaches it with an error. */
async function attached(link) {
  const kind = link.is_sender() ? "sender" : "receiver";
  await event(link, `${kind}_open`, `${kind}_error`);
  return link;
}

/** Call the management API. (Its links of one name in both directions, as /management wants them, rhea does not know.) */
async function api(method, path, body) {
  const { username, password, origin } = new URL(process.env.DLX_MANAGEMENT_URL);
  const authorization = `Basic ${Buffer.from(`${username}:${password}`).toString("base64")}`;
  const answer = await fetch(`${origin}/api/${path}`, { method, headers: { authorization }, body: JSON.stringify(body) });
  assert.ok(answer.ok, `${method} ${path}: ${answer.status}`);
}

/** A new queue. */
async function queue(type, wanted = {}) {
  const name = `rhea-${randomUUID()}`;
  await api("PUT", `queues/%2F/${name}`, { durable: true, arguments: { "x-queue-type": type, ...wanted } });
  queues.push(name);
  return name;
}

const address = (name) => `/queues/${name}`;

/** Publish, and return the name of the outcome. */
async function publish(target, message) {
  const sender = await attached(connection.open_sender(target));
  if (!sender.sendable()) await event(sender, "sendable");
  const outcome = new Promise((resolve) => {
    for (const name of ["accepted", "released", "rejected", "modified"]) sender.once(name, () => resolve(name));
  });
  sender.send(message);
  const found = await outcome;
  sender.close();
  return found;
}

/** A link that settles nothing by itself, with credit for some messages. */
async function consumer(name, credit, wanted = {}) {
  const receiver = connection.open_receiver(
    { source: { address: address(name) }, credit_window: 0, autoaccept: false, ...wanted });
  await attached(receiver);
  receiver.add_credit(credit);
  return receiver;
}

/** The next message of a queue, and its delivery. */
async function next(name, wanted) {
  const receiver = await consumer(name, 1, wanted);
  return { ...await event(receiver, "message"), receiver };
}

/** Drain a queue, and return the bodies that came. */
async function drained(name, credit) {
  const receiver = await consumer(name, credit, { autoaccept: true });
  const bodies = [];
  receiver.on("message", ({ message }) => bodies.push(message.body));
  const done = event(receiver, "receiver_drained");
  receiver.drain_credit();
  await done;
  assert.equal(receiver.credit, 0);
  receiver.close();
  return bodies;
}

before(async () => { connection = await connect(); });
after(async () => {
  connection.close();
  for (const name of queues) await api("DELETE", `queues/%2F/${name}`);
});

test("the server says who it is", async () => {
  assert.equal(connection.remote.open.properties.product, "RabbitMQ");
  assert.ok(connection.remote.open.offered_capabilities.includes("ANONYMOUS-RELAY"));
});

test("a wrong password is refused", async () => {
  await assert.rejects(connect({ password: "wrong" }));
});

for (const type of ["classic", "quorum"]) {
  test(`a message comes as it was sent (${type})`, async () => {
    const name = await queue(type);
    const sent = {
      message_id: "m1", subject: "order.new", content_type: "text/plain", durable: true, body: "an order",
      application_properties: { shop: "berlin", count: 3, paid: true }, message_annotations: { "x-opt-tenant": "a" },
    };
    assert.equal(await publish(address(name), sent), "accepted");
    const { message, delivery, receiver } = await next(name);
    for (const field of ["message_id", "subject", "content_type", "body", "application_properties"]) {
      assert.deepEqual(message[field], sent[field]);
    }
    assert.equal(message.message_annotations["x-opt-tenant"], "a");
    assert.equal(message.first_acquirer, true);
    delivery.accept();
    receiver.close();
    await event(receiver, "receiver_close");
    assert.deepEqual(await drained(name, 1), []);
  });

  const outcomes = {
    rejected: [(delivery) => delivery.reject(), "dead"],
    released: [(delivery) => delivery.release(), "work"],
    "delivery failed": [(delivery) => delivery.modified({ delivery_failed: true }), "work"],
    "undeliverable here": [(delivery) => delivery.modified({ undeliverable_here: true }), "dead"],
  };
  for (const [outcome, [settle, where]] of Object.entries(outcomes)) {
    test(`a message that is ${outcome} is in ${where} (${type})`, async () => {
      const dead = await queue(type);
      const work = await queue(type, { "x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead });
      await publish(address(work), { body: "x" });
      const held = await next(work);
      const back = where === "work" ? event(held.receiver, "message") : undefined;
      settle(held.delivery);
      held.receiver.add_credit(1);
      const found = await (back ?? next(dead));
      assert.equal(found.message.body, "x");
      const deaths = found.message.message_annotations["x-opt-deaths"];
      assert.equal(deaths === undefined ? 0 : deaths.length, where === "dead" ? 1 : 0);
      const failed = ["rejected", "delivery failed"].includes(outcome);
      if (type === "quorum") assert.equal(found.message.delivery_count ?? 0, Number(failed));
      found.delivery.accept();
    });
  }

  test(`what a link holds goes to the next when it is closed (${type})`, async () => {
    const name = await queue(type);
    await publish(address(name), { body: "x" });
    const { receiver } = await next(name);
    receiver.close();
    await event(receiver, "receiver_close");
    assert.equal((await next(name)).message.body, "x");
  });

  test(`drain takes what is there and gives the credit back (${type})`, async () => {
    const name = await queue(type);
    for (const body of ["1", "2"]) await publish(address(name), { body });
    assert.deepEqual(await drained(name, 10), ["1", "2"]);
  });
}

test("an annotation of an outcome is in the dead letter", async () => {
  const dead = await queue("quorum");
  const work = await queue("quorum", { "x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead });
  await publish(address(work), { body: "x" });
  const why = { "x-opt-why": "because" };
  (await next(work)).delivery.modified({ delivery_failed: true, undeliverable_here: true, message_annotations: why });
  const { message } = await next(dead);
  assert.equal(message.message_annotations["x-opt-why"], "because");
  assert.equal(message.message_annotations["x-first-death-reason"], "rejected");
});

test("what no queue takes is released, what a full one refuses rejected", async () => {
  const full = await queue("classic", { "x-max-length": 1, "x-overflow": "reject-publish" });
  assert.equal(await publish("/exchanges/amq.direct/nowhere", { body: "x" }), "released");
  assert.equal(await publish(address(full), { body: "1" }), "accepted");
  assert.equal(await publish(address(full), { body: "2" }), "rejected");
});

test("a message may say itself where it goes", async () => {
  const name = await queue("quorum");
  assert.equal(await publish({ target: {} }, { to: address(name), body: "x" }), "accepted");
  assert.equal((await next(name)).message.body, "x");
});

test("a large message comes in many frames", async () => {
  const small = await connect({ max_frame_size: 4096 });
  const name = await queue("classic");
  const body = "ä".repeat(100_000);
  assert.equal(await publish(address(name), { body }), "accepted");
  const receiver = small.open_receiver(address(name));
  const { message } = await event(receiver, "message", "receiver_error");
  assert.equal(message.body, body);
  small.close();
});

test("a stream is read from its beginning, again and again", async () => {
  const name = await queue("stream");
  for (const body of ["1", "2", "3"]) await publish(address(name), { body });
  for (const _ of [1, 2]) {
    const filter = { "rabbitmq:stream-offset-spec": rhea.types.wrap_described("first", "rabbitmq:stream-offset-spec") };
    const receiver = await consumer(name, 3, { source: { address: address(name), filter } });
    const bodies = await new Promise((resolve) => {
      const found = [];
      receiver.on("message", ({ message, delivery }) => {
        delivery.accept();
        if (found.push(message.body) === 3) resolve(found);
      });
    });
    assert.deepEqual(bodies, ["1", "2", "3"]);
    receiver.close();
  }
});

test("a link to what is not there fails, and says why", async () => {
  const own = await connect();
  const failed = Promise.any([
    event(own, "receiver_error").then(({ receiver }) => receiver.error),
    event(own, "session_error").then(({ session }) => session.error),
  ]);
  own.open_receiver("/queues/rhea-nowhere");
  const error = await failed;
  assert.equal(error.condition, "amqp:not-found");
  assert.match(error.description, /no queue 'rhea-nowhere' in vhost '\/'/);
  own.close();
});
