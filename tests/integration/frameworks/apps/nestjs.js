// @golevelup/nestjs-rabbitmq: what becomes of a message whose handler throws, by error behaviour. The default puts it
// back into the queue at once, again and again; it prints how often each handler was called.
'use strict';
require('reflect-metadata');
const { Module } = require('@nestjs/common');
const { NestFactory } = require('@nestjs/core');
const {
  AmqpConnection, MessageHandlerErrorBehavior, Nack, RabbitMQModule, RabbitSubscribe,
} = require('@golevelup/nestjs-rabbitmq');

const QUORUM = { 'x-queue-type': 'quorum' };
const CALLS = 30;  // more than the delivery limit that quorum queues have by default
const QUEUES = {
  default: { queueOptions: { arguments: QUORUM } },
  nack: { errorBehavior: MessageHandlerErrorBehavior.NACK, queueOptions: { deadLetterExchange: 'failed' } },
  ack: { errorBehavior: MessageHandlerErrorBehavior.ACK, queueOptions: { deadLetterExchange: 'failed' } },
  returned: { queueOptions: { deadLetterExchange: 'failed', deadLetterRoutingKey: 'returned.nack' } },
  classic: { queueOptions: { deadLetterExchange: 'failed' } },
};

class Handlers {
  constructor() { this.calls = {}; }

  handle(name, message) {
    this.calls[name] = (this.calls[name] || 0) + 1;
    if (name === 'returned') return new Nack(false);
    if (this.calls[name] === CALLS) return undefined;
    throw new Error(`cannot handle ${message.body}`);
  }
}

// As the decorator @RabbitSubscribe does it in TypeScript.
for (const [name, options] of Object.entries(QUEUES)) {
  Handlers.prototype[name] = function handle(message) { return this.handle(name, message); };
  const descriptor = Object.getOwnPropertyDescriptor(Handlers.prototype, name);
  RabbitSubscribe({ exchange: 'events', routingKey: `event.${name}`, queue: name, ...options })(
    Handlers.prototype, name, descriptor,
  );
}

class App {}
Module({
  imports: [RabbitMQModule.forRoot({
    uri: process.env.AMQP_URL,
    prefetchCount: 1,
    exchanges: [{ name: 'events', type: 'topic' }, { name: 'failed', type: 'topic' }],
    queues: [{ name: 'failed', exchange: 'failed', routingKey: ['event.#', '*.nack'] }],
    connectionInitOptions: { wait: true, timeout: 20000 },
  })],
  providers: [Handlers],
})(App);

async function main() {
  const app = await NestFactory.createApplicationContext(App, { logger: false });
  const connection = app.get(AmqpConnection);
  let failed = 0;
  for (const name of Object.keys(QUEUES)) {
    await connection.publish('events', `event.${name}`, { body: name }, { persistent: true });
    failed += ['nack', 'returned'].includes(name);
    await settled(connection, app.get(Handlers).calls, name, failed);
  }
  console.log(JSON.stringify(app.get(Handlers).calls));
  await app.close();
}

async function settled(connection, calls, name, failed) {
  let before = -1;
  for (let waited = 0; waited < 20000; waited += 100) {
    const counts = await Promise.all([connection.channel.checkQueue('failed'), connection.channel.checkQueue(name)]);
    const now = calls[name] || 0;
    if (now > 0 && now === before && counts[0].messageCount === failed && counts[1].messageCount === 0) return;
    before = now;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error(`'${name}' did not settle`);
}

main().catch((error) => { console.error(error); process.exit(1); });
