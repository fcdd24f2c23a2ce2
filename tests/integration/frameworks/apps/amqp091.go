// amqp091-go: a quorum queue with a delivery limit that a crash and rejections use up, a consumer that counts deaths in
// x-death, and queues with arguments of several integer types.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	patience = 20 * time.Second
	rounds   = 2
)

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func declare(channel *amqp.Channel) {
	exchanges := []struct{ name, kind string }{{"billing", "direct"}, {"billing.dlx", "direct"}, {"billing.all", "fanout"}}
	for _, each := range exchanges {
		check(channel.ExchangeDeclare(each.name, each.kind, true, false, false, false, nil))
	}
	check(channel.ExchangeBind("billing.all", "invoice", "billing", false, nil))

	queues := map[string]amqp.Table{
		"invoices": {
			"x-queue-type": "quorum", "x-delivery-limit": int32(2),
			"x-dead-letter-exchange": "billing.dlx", "x-dead-letter-routing-key": "invoices",
		},
		"invoices.failed": {"x-queue-type": "quorum", "x-max-length": int64(100)},
		"mails":           {"x-dead-letter-exchange": "billing.dlx", "x-max-priority": int16(4)},
		"mails.wait": {
			"x-message-ttl": int32(100), "x-dead-letter-exchange": "billing", "x-dead-letter-routing-key": "mail",
		},
		"mails.failed": nil,
		"everything":   {"x-message-ttl": int64(3600000), "x-overflow": "drop-head"},
	}
	for _, name := range []string{"invoices", "invoices.failed", "mails", "mails.wait", "mails.failed", "everything"} {
		_, err := channel.QueueDeclare(name, true, false, false, false, queues[name])
		check(err)
	}
	bindings := []struct{ queue, key, exchange string }{
		{"invoices", "invoice", "billing"}, {"invoices.failed", "invoices", "billing.dlx"},
		{"mails", "mail", "billing"}, {"mails.wait", "mail", "billing.dlx"}, {"everything", "", "billing.all"},
	}
	for _, each := range bindings {
		check(channel.QueueBind(each.queue, each.key, each.exchange, false, nil))
	}
}

// A confirm that comes soon passes a deferred confirmation of 1.5 by: github.com/rabbitmq/amqp091-go/issues/182.
func publish(channel *amqp.Channel, confirms chan amqp.Confirmation, exchange, key string, message amqp.Publishing) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	check(channel.PublishWithContext(ctx, exchange, key, false, false, message))
	select {
	case confirmed := <-confirms:
		if !confirmed.Ack {
			log.Fatalf("%s to '%s' was refused", key, exchange)
		}
	case <-ctx.Done():
		log.Fatalf("%s to '%s' was not confirmed", key, exchange)
	}
}

// crash takes a delivery and loses the connection with it.
func crash() {
	connection, err := amqp.Dial(os.Getenv("AMQP_URL"))
	check(err)
	channel, err := connection.Channel()
	check(err)
	deliveries, err := channel.Consume("invoices", "", false, false, false, false, nil)
	check(err)
	<-deliveries
	check(connection.Close())
}

func deaths(delivery amqp.Delivery, queue string) int64 {
	entries, _ := delivery.Headers["x-death"].([]interface{})
	for _, entry := range entries {
		if death := entry.(amqp.Table); death["queue"] == queue {
			return death["count"].(int64)
		}
	}
	return 0
}

func waitFor(channel *amqp.Channel, queue string, count int) {
	for until := time.Now().Add(patience); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
		found, err := channel.QueueInspect(queue)
		check(err)
		if found.Messages == count {
			return
		}
	}
	log.Fatalf("expected %d messages in '%s'", count, queue)
}

func main() {
	connection, err := amqp.Dial(os.Getenv("AMQP_URL"))
	check(err)
	channel, err := connection.Channel()
	check(err)
	check(channel.Confirm(false))
	confirms := channel.NotifyPublish(make(chan amqp.Confirmation, 1))
	declare(channel)

	publish(channel, confirms, "billing", "invoice", amqp.Publishing{
		DeliveryMode: amqp.Persistent, Body: []byte("invoice"), MessageId: "invoice-1",
		Headers: amqp.Table{"byte": byte(1), "int32": int32(2), "int64": int64(3), "share": 0.25, "none": nil},
	})
	crash()
	deliveries, err := channel.Consume("invoices", "", false, false, false, false, nil)
	check(err)
	for tries := 0; tries < 2; tries++ {
		delivery := <-deliveries
		fmt.Println("invoice redelivered:", delivery.Redelivered, delivery.Headers["x-delivery-count"])
		check(delivery.Reject(true))
	}
	waitFor(channel, "invoices.failed", 1)

	publish(channel, confirms, "billing", "mail", amqp.Publishing{Body: []byte("mail"), Priority: 3})
	mails, err := channel.Consume("mails", "", false, false, false, false, nil)
	check(err)
	for delivery := range mails {
		if deaths(delivery, "mails") < rounds {
			check(delivery.Nack(false, false))
			continue
		}
		publish(channel, confirms, "", "mails.failed", amqp.Publishing{Headers: delivery.Headers, Body: delivery.Body})
		check(delivery.Ack(false))
		break
	}
	waitFor(channel, "mails.failed", 1)
	check(connection.Close())
}
