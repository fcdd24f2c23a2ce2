// iron_mq, the authors' client of IronMQ for node: messages are reserved, released and dead-lettered.
//
// `tests/clients/run npm-iron_mq` runs it with a client of its own and an IronMQ whose time stands still.
"use strict";
const assert = require("node:assert");
const { randomUUID } = require("node:crypto");
const { test } = require("node:test");
const iron = require("iron_mq");

const server = new URL(process.env.DLX_CLIENTS_URL);
const TIMEOUT_S = 60;

/** A client with a project of its own. */
function client(queue_name) {
  const where = { scheme: "http", host: server.hostname, port: server.port };
  return new iron.Client({ ...where, token: "any", project_id: randomUUID().replaceAll("-", ""), queue_name });
}

/** What a call answers; the client calls back more than once, and the first time counts. */
function answer(object, method, ...given) {
  return new Promise((resolve, reject) =>
    object[method](...given, (error, body) => (error ? reject(error) : resolve(body))));
}

/** Move the server's clock. */
async function advance(seconds) {
  const moved = await fetch(new URL("/clock/advance", server), { method: "POST", body: JSON.stringify({ seconds }) });
  assert.equal(moved.status, 200);
}

test("a message is posted, reserved and deleted", async () => {
  const jobs = client("jobs");
  await answer(jobs, "post", ["one", { body: "two" }]);
  const held = await answer(jobs, "reserve", { n: 2 });
  assert.deepEqual(held.map((message) => message.body), ["one", "two"]);
  await answer(jobs, "del", held[0].id, { reservation_id: held[0].reservation_id });
  assert.equal((await answer(jobs, "info")).size, 1);
});

test("what is reserved too often is in the dead letter queue", async () => {
  const jobs = client("jobs");
  const dead_letter = { queue_name: "dead", max_reservations: 1 };
  await answer(jobs, "create_queue", "jobs", { message_timeout: TIMEOUT_S, dead_letter });
  await answer(jobs, "post", "poison");
  assert.equal((await answer(jobs, "reserve", {})).body, "poison");
  await advance(TIMEOUT_S + 1);
  assert.equal(await answer(jobs, "reserve", {}), undefined);
  assert.equal((await answer(jobs.queue("dead"), "peek", {})).body, "poison");
});

test("a message is released with a delay", async () => {
  const jobs = client("jobs");
  await answer(jobs, "post", "again");
  const held = await answer(jobs, "reserve", {});
  await answer(jobs, "msg_release", held.id, held.reservation_id, { delay: 10 });
  assert.equal(await answer(jobs, "reserve", {}), undefined);
  await advance(11);
  assert.equal((await answer(jobs, "reserve", {})).reserved_count, 2);
});
