<?php
// php-amqplib: a queue for each delay, declared when the delay is first needed and deleted when it is not used any more;
// a task that fails goes through longer and longer delays and into a queue without a consumer in the end.

require 'PhpAmqpLib/autoload.php';

use PhpAmqpLib\Connection\AMQPStreamConnection;
use PhpAmqpLib\Exchange\AMQPExchangeType;
use PhpAmqpLib\Message\AMQPMessage;
use PhpAmqpLib\Wire\AMQPTable;

const DELAYS_MS = [50, 100];
const UNUSED_MS = 60000;

$connection = new AMQPStreamConnection(getenv('AMQP_HOST'), getenv('AMQP_PORT'), 'guest', 'guest', getenv('AMQP_VHOST'));
$channel = $connection->channel();
$channel->confirm_select();

$channel->exchange_declare('tasks', AMQPExchangeType::DIRECT, false, true, false);
$channel->exchange_declare('tasks.unroutable', AMQPExchangeType::FANOUT, false, true, false);
$channel->exchange_declare('tasks.retry', AMQPExchangeType::TOPIC, false, true, false, false, false,
    new AMQPTable(['alternate-exchange' => 'tasks.unroutable']));
$channel->queue_declare('tasks', false, true, false, false, false, new AMQPTable([
    'x-dead-letter-exchange' => 'tasks.rejected', 'x-max-priority' => 5, 'x-message-ttl' => 60000,
]));
$channel->queue_bind('tasks', 'tasks', 'tasks');
foreach (['tasks.rejected', 'tasks.unroutable'] as $name) {
    $channel->queue_declare($name, false, true, false, false);
}
$channel->exchange_declare('tasks.rejected', AMQPExchangeType::DIRECT, false, true, false);
$channel->queue_bind('tasks.rejected', 'tasks.rejected', 'tasks');
$channel->queue_bind('tasks.unroutable', 'tasks.unroutable');

function delay($channel, AMQPMessage $message, int $delay): void
{
    $queue = "tasks.delay.$delay";
    $channel->queue_declare($queue, false, true, false, false, false, new AMQPTable([
        'x-message-ttl' => $delay, 'x-expires' => $delay + UNUSED_MS,
        'x-dead-letter-exchange' => 'tasks', 'x-dead-letter-routing-key' => 'tasks', 'x-queue-mode' => 'lazy',
    ]));
    $channel->queue_bind($queue, 'tasks.retry', "after.$delay");
    $channel->basic_publish($message, 'tasks.retry', "after.$delay");
}

$text = ['delivery_mode' => AMQPMessage::DELIVERY_MODE_PERSISTENT, 'content_type' => 'text/plain'];
$channel->basic_publish(new AMQPMessage('good', $text), 'tasks', 'tasks');
$channel->basic_publish(new AMQPMessage('bad', $text + ['priority' => 2, 'application_headers' => new AMQPTable(
    ['tenant' => 'north', 'size' => 12, 'share' => 0.5, 'dry' => false, 'parts' => ['a', 'b'], 'none' => null],
)]), 'tasks', 'tasks');
$channel->basic_publish(new AMQPMessage('nowhere', $text), 'tasks.retry', 'never.declared');
$channel->wait_for_pending_acks(20);

$attempts = 0;
$done = false;
$channel->basic_qos(0, 1, false);
$channel->basic_consume('tasks', '', false, false, false, false, function (AMQPMessage $message) use (&$attempts, &$done) {
    if ('good' === $message->getBody()) {
        return $message->ack();
    }
    if ($attempts < count(DELAYS_MS)) {
        $again = new AMQPMessage($message->getBody(), $message->get_properties());
        delay($message->getChannel(), $again, DELAYS_MS[$attempts++]);
        $message->getChannel()->wait_for_pending_acks(20);

        return $message->ack();
    }
    $done = true;
    $message->reject(false);
});
$started = microtime(true);
while (!$done && microtime(true) < $started + 20) {
    $channel->wait(null, false, 20);
}
while (0 === $channel->queue_declare('tasks.rejected', true)[1] && microtime(true) < $started + 20) {
    usleep(20000);
}
$connection->close();
exit($done ? 0 : 1);
