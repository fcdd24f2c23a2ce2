// Rascal, set up as its documents show it: what fails for a while is forwarded to a queue that delays it and sends it
// back by its CC key; what is bad is republished with the error in its headers and rejected at once; or republished
// some times and then rejected, by when its routing key is the queue's name, which nothing is bound for.
'use strict';
const { BrokerAsPromised, withDefaultConfig } = require('rascal');

const DELAY_MS = 100;
const dead = { 'x-dead-letter-exchange': 'dead_letters', 'x-dead-letter-routing-key': 'registration.dead_letter' };
const config = (url) => ({
  vhosts: {
    [decodeURIComponent(new URL(url).pathname.slice(1))]: {
      connection: { url },
      exchanges: ['service', 'delay', 'retry', 'dead_letters'],
      queues: {
        'registration:user:save': { options: { arguments: dead } },
        'registration:user:delete': { options: { arguments: dead } },
        'registration:user:check': { options: { arguments: { 'x-dead-letter-exchange': 'dead_letters' } } },
        'delay:short': { options: { arguments: { 'x-message-ttl': DELAY_MS, 'x-dead-letter-exchange': 'retry' } } },
        'dead_letters:registration': {},
      },
      bindings: {
        'service[user.created.#,user.updated.#] -> registration:user:save': {},
        'service[user.deleted.#] -> registration:user:delete': {},
        'service[user.checked.#] -> registration:user:check': {},
        'delay[delay.short] -> delay:short': {},
        'retry[registration:user:save.#] -> registration:user:save': {},
        'dead_letters[registration.dead_letter,user.checked.#] -> dead_letters:registration': {},
      },
      publications: {
        user_event: { exchange: 'service' },
        retry_shortly: { exchange: 'delay', options: { CC: ['delay.short'] } },
      },
      subscriptions: {
        save: { queue: 'registration:user:save', prefetch: 1 },
        delete: { queue: 'registration:user:delete', prefetch: 1 },
        check: { queue: 'registration:user:check', prefetch: 1 },
      },
    },
  },
});

const RECOVERY = {
  save: [{ strategy: 'forward', attempts: 2, publication: 'retry_shortly' }, { strategy: 'nack' }],
  delete: [{ strategy: 'republish', immediateNack: true }],
  check: [{ strategy: 'republish', defer: 20, attempts: 2 }, { strategy: 'nack' }],
};
const FAILURES = { save: 3, delete: 1, check: 3 };

async function fail(broker, name) {
  const subscription = await broker.subscribe(name);
  let left = FAILURES[name];
  await new Promise((resolve, reject) => {
    subscription.on('error', reject);
    subscription.on('message', (message, content, ackOrNack) => {
      const error = Object.assign(new Error(`cannot ${name} ${content}`), { code: 'EFAIL' });
      ackOrNack(error, RECOVERY[name]);
      if ((left -= 1) === 0) resolve();
    });
  });
}

async function publish(broker, key) {
  const publication = await broker.publish('user_event', 'ada', { routingKey: key, options: { appId: 'webapp' } });
  await new Promise((resolve, reject) => publication.on('success', resolve).on('error', reject).on('return', reject));
}

async function main() {
  const broker = await BrokerAsPromised.create(withDefaultConfig(config(process.env.AMQP_URL)));
  broker.on('error', console.error);
  // One after the other, so that the dead letters have an order.
  for (const [name, key] of [['save', 'user.created.web'], ['delete', 'user.deleted.web'], ['check', 'user.checked']]) {
    await publish(broker, key);
    await fail(broker, name);
    await new Promise((resolve) => setTimeout(resolve, 300));
  }
  await broker.shutdown();
}

main().catch((error) => { console.error(error); process.exit(1); });
