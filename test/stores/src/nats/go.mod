module github.com/conclave-project/conclave/test/stores/src/nats

go 1.26.0

require github.com/nats-io/nats-server/v2 v2.15.2
