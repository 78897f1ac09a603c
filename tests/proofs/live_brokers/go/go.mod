// Of the driver, and of the server that is built beside it.
module live

go 1.20

require (
	github.com/nats-io/nats-streaming-server v0.25.6
	github.com/nats-io/stan.go v0.10.4
)
