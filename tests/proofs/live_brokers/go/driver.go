// Driver has the verbs of tests/proofs/live_brokers/driver.py on NATS Streaming: a line of JSON in, a line out.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/stan.go"
)

const cluster = "test-cluster" // the server's default

var began = time.Now()

// settings of a subscription; a consumer without a group is a plain one.
type settings struct {
	AckWait     float64 `json:"ack_wait"`
	MaxInflight int     `json:"max_inflight"`
	Group       string  `json:"group"`
	Durable     string  `json:"durable"`
	Start       string  `json:"start"`
	Client      string  `json:"client"`
	Work        float64 `json:"work"`
	Fails       bool    `json:"fails"`
}

type ask struct {
	Verb      string   `json:"verb"`
	Consumer  string   `json:"consumer"`
	Queue     string   `json:"queue"`
	Body      string   `json:"body"`
	Wait      int      `json:"wait"`
	Streaming settings `json:"streaming"`
}

// seen is a delivery as a line says it.
type seen struct {
	At    int64  `json:"at"`
	Count uint32 `json:"count"`
	Body  string `json:"body"`
	ID    string `json:"id"`
}

// client is a connection with one subscription.
type client struct {
	connection stan.Conn
	subscribed stan.Subscription
	came       chan *arrival
	mutex      sync.Mutex
	held       map[string]*stan.Msg
	heard      []seen
}

type arrival struct {
	message *stan.Msg
	seen    seen
}

type driver struct {
	url     string
	own     stan.Conn
	clients map[string]*client
}

func main() {
	made := driver{url: os.Args[1], clients: map[string]*client{}}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		own, err := made.connect(fmt.Sprintf("own-%d", os.Getpid()))
		if made.own = own; err == nil {
			break
		} else if time.Now().After(deadline) {
			panic(err)
		}
	}
	lines, out := bufio.NewScanner(os.Stdin), json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var asked ask
		reply := map[string]any{}
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			reply["error"] = err.Error()
		} else if is, err := made.does(asked); err != nil {
			reply["error"] = err.Error()
		} else {
			reply["is"] = is
		}
		if err := out.Encode(reply); err != nil {
			return
		}
	}
}

func (d *driver) connect(id string) (stan.Conn, error) {
	return stan.Connect(cluster, id, stan.NatsURL(d.url), stan.ConnectWait(5*time.Second))
}

func (d *driver) does(asked ask) (any, error) {
	c := d.clients[asked.Consumer]
	switch asked.Verb {
	case "ready":
		return nil, nil
	case "open":
		return nil, d.open(asked)
	case "send":
		return "", d.own.Publish(asked.Queue, []byte(asked.Body))
	case "receive":
		return c.receive(time.Duration(asked.Wait) * time.Millisecond), nil
	case "heard":
		c.mutex.Lock()
		defer c.mutex.Unlock()
		return append([]seen{}, c.heard...), nil
	case "ack":
		return nil, c.held[asked.Body].Ack()
	case "close": // the subscription; a durable one goes on when it is opened again
		return nil, c.subscribed.Close()
	case "unsubscribe":
		return nil, c.subscribed.Unsubscribe()
	case "disconnect":
		return nil, c.connection.Close()
	}
	return nil, fmt.Errorf("no such verb: %s", asked.Verb)
}

func (d *driver) open(asked ask) error {
	given := asked.Streaming
	id := given.Client
	if id == "" {
		id = fmt.Sprintf("%s-%d", strings.ReplaceAll(asked.Consumer, " ", "-"), os.Getpid())
	}
	connection, err := d.connect(id)
	if err != nil {
		return err
	}
	c := &client{connection: connection, came: make(chan *arrival, 10_000), held: map[string]*stan.Msg{}}
	handle := c.keep
	if given.Work > 0 {
		handle = func(message *stan.Msg) { c.work(message, given) }
	}
	options, err := given.options()
	if err != nil {
		return err
	}
	if given.Group == "" {
		c.subscribed, err = connection.Subscribe(asked.Queue, handle, options...)
	} else {
		c.subscribed, err = connection.QueueSubscribe(asked.Queue, given.Group, handle, options...)
	}
	d.clients[asked.Consumer] = c
	return err
}

func (given settings) options() ([]stan.SubscriptionOption, error) {
	wait := time.Duration(given.AckWait * float64(time.Second))
	options := []stan.SubscriptionOption{stan.SetManualAckMode(), stan.AckWait(wait)}
	if given.MaxInflight > 0 {
		options = append(options, stan.MaxInflight(given.MaxInflight))
	}
	if given.Durable != "" {
		options = append(options, stan.DurableName(given.Durable))
	}
	switch given.Start {
	case "":
		return append(options, stan.DeliverAllAvailable()), nil
	case "new":
		return options, nil
	case "last":
		return append(options, stan.StartWithLastReceived()), nil
	}
	number, err := strconv.ParseUint(given.Start, 10, 64)
	return append(options, stan.StartAtSequence(number)), err
}

// keep lets a delivery wait until it is received.
func (c *client) keep(message *stan.Msg) {
	c.came <- &arrival{message, saw(message)}
}

// work takes its time, and acknowledges or fails.
func (c *client) work(message *stan.Msg, given settings) {
	c.mutex.Lock()
	c.heard = append(c.heard, saw(message))
	c.mutex.Unlock()
	time.Sleep(time.Duration(given.Work * float64(time.Second)))
	if !given.Fails {
		_ = message.Ack()
	}
}

func (c *client) receive(wait time.Duration) *seen {
	select {
	case came := <-c.came:
		c.held[came.seen.Body] = came.message
		return &came.seen
	case <-time.After(wait):
		return nil
	}
}

func saw(message *stan.Msg) seen {
	at := time.Since(began).Milliseconds()
	return seen{at, message.RedeliveryCount + 1, string(message.Data), fmt.Sprint(message.Sequence)}
}
