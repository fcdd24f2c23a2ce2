// What stompit (npm) sees of a broker: `node with_stompit.js PORT QUIET_S`, with stompit installed where node finds it.
//
// It prints a line for each behaviour. `test_stomp_clients.py` runs it against a new `dlx serve activemq`.
const stompit = require('stompit');
const port = parseInt(process.argv[2]);
const quiet = 1000 * parseFloat(process.argv[3]); // after so long nothing more comes
const wait = (ms) => new Promise((done) => setTimeout(done, ms));
const connect = (more) =>
  new Promise((done, fail) =>
    stompit.connect(
      { host: '127.0.0.1', port, connectHeaders: { host: '/', 'heart-beat': '0,0', ...more } },
      (error, client) => (error ? fail(error) : done(client)),
    ),
  );
const send = (client, queue, body, more) => {
  const frame = client.send({ destination: queue, ...more });
  frame.write(body);
  frame.end();
};
function subscribe(client, queue, ack, seen, act, more) {
  return client.subscribe({ destination: queue, ack, ...more }, (error, message) => {
    if (error) {
      seen.push('error ' + error.message.split('\n')[0]);
      return;
    }
    message.readString('utf-8', (error, body) => {
      const shown = {};
      for (const name of ['redelivered', 'persistent', 'original-destination', 'originalExpiration', 'own'])
        if (message.headers[name]) shown[name] = message.headers[name];
      seen.push([body, shown]);
      if (act) act(message, body);
    });
  });
}
const behaviours = {
  async nack(queue) {
    const client = await connect(),
      seen = [],
      dead = [];
    for (const body of 'ABC') send(client, queue, body, { persistent: 'true' });
    subscribe(client, queue, 'client-individual', seen, (message, body) =>
      body === 'B' ? client.nack(message) : client.ack(message),
    );
    await wait(quiet);
    subscribe(client, '/queue/ActiveMQ.DLQ', 'auto', dead);
    await wait(quiet);
    client.disconnect();
    return [seen, dead];
  },
  async cumulative(queue) {
    const client = await connect(),
      seen = [],
      again = [];
    for (const body of 'ABC') send(client, queue, body, { persistent: 'true' });
    subscribe(client, queue, 'client', seen, (message, body) => {
      if (body === 'B') client.ack(message);
    });
    await wait(quiet);
    client.destroy();
    await wait(quiet);
    const other = await connect();
    subscribe(other, queue, 'auto', again);
    await wait(quiet);
    other.disconnect();
    return [seen, again];
  },
  async transaction(queue) {
    const client = await connect(),
      seen = [];
    subscribe(client, queue, 'auto', seen);
    let transaction = client.begin();
    let frame = transaction.send({ destination: queue });
    frame.end('lost');
    transaction.abort();
    transaction = client.begin();
    frame = transaction.send({ destination: queue });
    frame.end('kept');
    transaction.commit();
    await wait(quiet);
    client.disconnect();
    return seen;
  },
  async 'not persistent'(queue) {
    const client = await connect(),
      seen = [],
      dead = [];
    send(client, queue, 'A');
    subscribe(client, queue, 'client-individual', seen, (message) => client.nack(message));
    await wait(quiet);
    subscribe(client, '/queue/ActiveMQ.DLQ', 'auto', dead);
    await wait(quiet);
    client.disconnect();
    return [seen, dead];
  },
  async selector(queue) {
    const client = await connect(),
      seen = [];
    for (const own of ['1', '20']) send(client, queue, own, { own });
    subscribe(client, queue, 'auto', seen, null, { selector: 'own > 2' });
    await wait(quiet);
    client.disconnect();
    return seen;
  },
  async error() {
    const client = await connect();
    const seen = [];
    client.on('error', (error) => seen.push(error.message.split('\n')[0]));
    client.sendFrame('ACK', { id: 'nobody' }).end();
    await wait(quiet);
    return seen;
  },
};
(async () => {
  for (const [name, act] of Object.entries(behaviours))
    console.log(JSON.stringify({ [name]: await act('/queue/' + name.replace(' ', '.')) }));
  process.exit(0);
})();
