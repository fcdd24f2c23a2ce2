// amqplib: a consumer rejects an order; its dead letter waits in a queue with a TTL, comes back, and is parked in the
// end. A quorum queue counts deliveries by itself, a short queue pushes out its oldest, and a quote expires.
'use strict';
const amqp = require('amqplib');

const ROUNDS = 2;

async function declare(channel) {
  await channel.assertExchange('shop', 'topic');
  await channel.assertExchange('shop.dead', 'fanout');
  await channel.assertQueue('orders', { deadLetterExchange: 'shop.dead', deadLetterRoutingKey: 'orders' });
  await channel.assertQueue('orders.wait', {
    messageTtl: 100, deadLetterExchange: '', deadLetterRoutingKey: 'orders',
  });
  await channel.assertQueue('orders.parked');
  await channel.bindQueue('orders', 'shop', 'order.#');
  await channel.bindQueue('orders.wait', 'shop.dead', '');

  const limited = { 'x-queue-type': 'quorum', 'x-delivery-limit': 2, 'x-dead-letter-strategy': 'at-least-once' };
  await channel.assertQueue('payments', {
    arguments: limited, deadLetterExchange: '', deadLetterRoutingKey: 'payments.dead', overflow: 'reject-publish',
  });
  await channel.assertQueue('payments.dead', { arguments: { 'x-queue-type': 'quorum' } });
  await channel.bindQueue('payments', 'shop', 'payment.*');

  await channel.assertQueue('latest', { maxLength: 2, deadLetterExchange: '', deadLetterRoutingKey: 'latest.older' });
  await channel.assertQueue('latest.older', { maxPriority: 3 });
  await channel.bindQueue('latest', 'shop', 'price.*');

  await channel.assertExchange('quotes.dead', 'headers');
  await channel.assertQueue('quotes', { deadLetterExchange: 'quotes.dead' });
  await channel.assertQueue('quotes.expired');
  await channel.bindQueue('quotes.expired', 'quotes.dead', '', { 'x-match': 'all', region: 'north' });
}

function consumeOrders(channel) {
  return new Promise((resolve, reject) => {
    channel.consume('orders', (message) => {
      const death = (message.properties.headers['x-death'] || []).find((each) => each.queue === 'orders');
      if (death === undefined || death.count < ROUNDS) return channel.nack(message, false, false);
      const { headers, messageId } = message.properties;
      channel.sendToQueue('orders.parked', message.content, { headers, messageId, persistent: true });
      channel.ack(message);
      channel.waitForConfirms().then(resolve, reject);
    });
  });
}

async function settle(channel, expected) {
  for (let waited = 0; waited < 20000; waited += 50) {
    const counts = await Promise.all(Object.keys(expected).map((name) => channel.checkQueue(name)));
    if (counts.every(({ queue, messageCount }) => messageCount === expected[queue])) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`expected ${JSON.stringify(expected)}`);
}

async function main() {
  const connection = await amqp.connect(process.env.AMQP_URL);
  const channel = await connection.createConfirmChannel();
  await declare(channel);

  channel.publish('shop', 'order.new', Buffer.from('order'), {
    persistent: true, messageId: 'order-1', contentType: 'text/plain', headers: { attempts: 1, tags: ['a', 'b'] },
  });
  channel.publish('shop', 'payment.card', Buffer.from('payment'), { persistent: true, CC: ['payment.copy'] });
  for (let price = 1; price <= 4; price += 1) {
    channel.publish('shop', 'price.gold', Buffer.from(String(price)), { priority: price % 2, type: 'price' });
    await channel.waitForConfirms();
  }
  channel.sendToQueue('quotes', Buffer.from('quote'), { expiration: 50, headers: { region: 'north' } });
  channel.sendToQueue('quotes', Buffer.from('lost quote'), { expiration: 50, headers: { region: 'south' } });
  await channel.waitForConfirms();

  await consumeOrders(channel);
  await channel.consume('payments', (message) => channel.reject(message, true));
  await settle(channel, { orders: 0, 'payments.dead': 1, 'latest.older': 2, quotes: 0, 'quotes.expired': 1 });
  await connection.close();
}

main().catch((error) => { console.error(error); process.exit(1); });
