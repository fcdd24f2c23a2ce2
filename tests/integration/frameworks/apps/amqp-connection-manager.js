// amqp-connection-manager: the connection drops while a job is not acknowledged. The manager connects and declares
// again, and sends what was published meanwhile; the job comes back, marked as redelivered, and is dead-lettered.
'use strict';
const { once } = require('events');
const manager = require('amqp-connection-manager');

async function setup(channel) {
  await channel.assertExchange('jobs', 'direct', { durable: true });
  await channel.assertExchange('jobs.failed', 'direct', { durable: true });
  await channel.assertQueue('jobs', { durable: true, deadLetterExchange: 'jobs.failed' });
  await channel.assertQueue('jobs.failed', { durable: true });
  await channel.bindQueue('jobs', 'jobs', 'mail');
  await channel.bindQueue('jobs', 'jobs', 'print');
  await channel.bindQueue('jobs.failed', 'jobs.failed', 'mail');
}

async function main() {
  const connection = manager.connect([process.env.AMQP_URL], { reconnectTimeInSeconds: 0.1 });
  const wrapper = connection.createChannel({ json: true, setup });
  await wrapper.waitForConnect();

  let settled = 0;
  let cut = false;
  connection.once('disconnect', () => {
    wrapper.publish('jobs', 'print', { job: 'print' });
    wrapper.publish('jobs', 'mail', { job: 'mail again' }, { headers: { retries: 0 } });
  });
  const done = new Promise((resolve) => {
    wrapper.consume('jobs', (message) => {
      if (!cut) {
        cut = true;
        connection.connection.connection.stream.destroy(new Error('the line is cut'));
        return;
      }
      console.log(message.fields.routingKey, message.fields.redelivered);
      wrapper.nack(message, false, false);
      settled += 1;
      if (settled === 3) resolve();
    }, { prefetch: 1 });
  });
  await wrapper.publish('jobs', 'mail', { job: 'mail' }, { persistent: true, messageId: 'first' });
  await done;
  await settle(wrapper);
  await wrapper.close();
  await connection.close();
}

async function settle(wrapper) {
  for (let waited = 0; waited < 20000; waited += 50) {
    if ((await wrapper.checkQueue('jobs.failed')).messageCount === 2) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error('expected two jobs in jobs.failed');
}

main().catch((error) => { console.error(error); process.exit(1); });
