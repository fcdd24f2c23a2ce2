<?php
// Symfony Messenger as its documents configure it: a transport with a retry strategy, whose retries wait in queues that
// Messenger declares just before, and a failure transport for what failed too often or cannot be handled at all. It
// rejects what it has sent elsewhere: a dead-letter exchange gets a copy of each try. What failed keeps the queue's name
// as its key: a failure transport with another key for its direct exchange loses it.

require 'Symfony/Component/Messenger/autoload.php';
require 'Symfony/Component/Messenger/Bridge/Amqp/autoload.php';
require 'Symfony/Component/EventDispatcher/autoload.php';
require 'Symfony/Component/Serializer/autoload.php';
require 'Symfony/Component/PropertyAccess/autoload.php';

use Psr\Container\ContainerInterface;
use Symfony\Component\EventDispatcher\EventDispatcher;
use Symfony\Component\Messenger\Bridge\Amqp\Transport\AmqpStamp;
use Symfony\Component\Messenger\Bridge\Amqp\Transport\AmqpTransportFactory;
use Symfony\Component\Messenger\Envelope;
use Symfony\Component\Messenger\Event\WorkerRunningEvent;
use Symfony\Component\Messenger\EventListener\SendFailedMessageForRetryListener;
use Symfony\Component\Messenger\EventListener\SendFailedMessageToFailureTransportListener;
use Symfony\Component\Messenger\Exception\UnrecoverableMessageHandlingException;
use Symfony\Component\Messenger\Handler\HandlersLocator;
use Symfony\Component\Messenger\MessageBus;
use Symfony\Component\Messenger\Middleware\HandleMessageMiddleware;
use Symfony\Component\Messenger\Middleware\RejectRedeliveredMessageMiddleware;
use Symfony\Component\Messenger\Retry\MultiplierRetryStrategy;
use Symfony\Component\Messenger\Stamp\DelayStamp;
use Symfony\Component\Messenger\Transport\Serialization\Serializer;
use Symfony\Component\Messenger\Worker;

const RETRIES = 2;
const DELAY_MS = 100;
const FACTOR = 2;
const SECONDS = 20;

class Mail
{
    public function __construct(public string $to)
    {
    }
}

class Services implements ContainerInterface
{
    public function __construct(private array $services)
    {
    }

    public function get(string $id): object
    {
        return $this->services[$id];
    }

    public function has(string $id): bool
    {
        return isset($this->services[$id]);
    }
}

$calls = [];
$handle = function (Mail $mail) use (&$calls): void {
    $calls[$mail->to] = ($calls[$mail->to] ?? 0) + 1;
    if (str_starts_with($mail->to, 'nobody')) {
        throw new UnrecoverableMessageHandlingException('nobody has no address');
    }
    if ('never' === $mail->to || ('later' === $mail->to && 1 === $calls['later'])) {
        throw new RuntimeException('cannot reach the mail server');
    }
};

$factory = new AmqpTransportFactory();
$serializer = Serializer::create();
$async = $factory->createTransport(getenv('AMQP_URL'), [
    'exchange' => ['name' => 'mails', 'type' => 'direct', 'default_publish_routing_key' => 'mail'],
    'queues' => ['mails' => [
        'binding_keys' => ['mail', 'urgent'], 'arguments' => ['x-dead-letter-exchange' => 'rejected'],
    ]],
], $serializer);
$bills = $factory->createTransport(getenv('AMQP_URL').'/bills', [], $serializer);
$failed = $factory->createTransport(getenv('AMQP_URL').'/failed', [], $serializer);
$failedBills = $factory->createTransport(getenv('AMQP_URL'), [
    'exchange' => ['name' => 'failed_bills', 'type' => 'direct', 'default_publish_routing_key' => 'bill'],
    'queues' => ['failed_bills' => ['binding_keys' => ['bill']]],
], $serializer);
$rejected = $factory->createTransport(getenv('AMQP_URL').'/rejected', [], $serializer);
foreach ([$async, $bills, $failed, $failedBills, $rejected] as $transport) {
    $transport->setup();
}

$dispatcher = new EventDispatcher();
$senders = new Services(['async' => $async]);
$strategies = new Services(['async' => new MultiplierRetryStrategy(RETRIES, DELAY_MS, FACTOR)]);
$dispatcher->addSubscriber(new SendFailedMessageForRetryListener($senders, $strategies));
$dispatcher->addSubscriber(new SendFailedMessageToFailureTransportListener(new Services(
    ['async' => $failed, 'bills' => $failedBills],
)));

$bus = new MessageBus([
    new RejectRedeliveredMessageMiddleware(),
    new HandleMessageMiddleware(new HandlersLocator([Mail::class => [$handle]])),
]);

$async->send(new Envelope(new Mail('ada')));
$async->send(new Envelope(new Mail('later'), [new AmqpStamp('urgent', AMQP_NOPARAM, ['headers' => ['campaign' => 7]])]));
$async->send(new Envelope(new Mail('never'), [new AmqpStamp('urgent')]));
$async->send(new Envelope(new Mail('nobody')));
$bills->send(new Envelope(new Mail('nobody else')));
$async->send(new Envelope(new Mail('delayed'), [new DelayStamp(2 * DELAY_MS)]));

// Until every mail had all its calls.
$expected = ['ada' => 1, 'later' => 2, 'never' => 1 + RETRIES, 'nobody' => 1, 'nobody else' => 1, 'delayed' => 1];
$started = microtime(true);
$dispatcher->addListener(WorkerRunningEvent::class, function (WorkerRunningEvent $event) use (&$calls, $expected, $started) {
    if ($calls == $expected || microtime(true) > $started + SECONDS) {
        $event->getWorker()->stop();
    }
});
(new Worker(['async' => $async, 'bills' => $bills], $bus, $dispatcher))->run(['sleep' => 10000]);

ksort($calls);
echo json_encode($calls), "\n";
exit($calls == $expected ? 0 : 1);
