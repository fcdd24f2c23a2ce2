# Bunny: a queue that refuses what is too much, whose publisher learns of it by a negative confirm; a consumer that
# rejects into a topic exchange, with a copy of all dead letters; and a delay set by the publisher, message by message.
require 'bunny'

def wait_until(what)
  400.times do
    return if yield

    sleep 0.05
  end
  abort "not within 20 s: #{what}"
end

connection = Bunny.new(ENV.fetch('AMQP_URL'), automatically_recover: false)
connection.start
channel = connection.create_channel
channel.confirm_select
channel.prefetch(1)

events = channel.topic('events', durable: true)
dead = channel.topic('events.dead', durable: true)
audit = channel.fanout('events.audit', durable: true, internal: true)
audit.bind(dead, routing_key: '#')

narrow = channel.queue('narrow', durable: true, arguments: {
  'x-max-length' => 2, 'x-overflow' => 'reject-publish-dlx', 'x-dead-letter-exchange' => 'events.dead'
}).bind(events, routing_key: 'narrow.*')
work = channel.queue('work', durable: true, arguments: {
  'x-dead-letter-exchange' => 'events.dead', 'x-single-active-consumer' => true
}).bind(events, routing_key: 'work.#')
waiting = channel.queue('waiting', durable: true, arguments: {
  'x-dead-letter-exchange' => 'events', 'x-dead-letter-routing-key' => 'work.again', 'x-max-length-bytes' => 1000
})
refused = channel.queue('refused', durable: true).bind(dead, routing_key: 'narrow.*')
failed = channel.queue('failed', durable: true).bind(dead, routing_key: 'work.#')
copies = channel.queue('copies', durable: true, arguments: { 'x-max-length' => 10 }).bind(audit)

confirmed = (1..4).map do |number|
  events.publish("event #{number}", routing_key: 'narrow.one', persistent: true, message_id: "event-#{number}")
  channel.wait_for_confirms
end
puts "confirmed: #{confirmed.inspect}"
wait_until('refused') { refused.message_count == 2 }

events.publish('work', routing_key: 'work.new', persistent: true, headers: { 'try' => 1, 'at' => 1.5 }, priority: 1)
waiting_key = waiting.name
channel.default_exchange.publish('late', routing_key: waiting_key, expiration: '150', reply_to: 'nobody')
channel.default_exchange.publish('early', routing_key: waiting_key, expiration: '50')
channel.wait_for_confirms

seen = []
work.subscribe(manual_ack: true) do |delivery, properties, body|
  seen << [body, delivery.routing_key, (properties.headers || {}).fetch('x-death', []).size]
  channel.reject(delivery.delivery_tag, false)
end
wait_until('failed') { failed.message_count == 3 }
wait_until('copies') { copies.message_count == 5 }
puts "seen: #{seen.inspect}"
connection.close
