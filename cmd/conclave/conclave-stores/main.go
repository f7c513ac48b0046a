// Command conclave-stores is conclave with the SDKs of all stores.
//
// It takes the same command lines. Users do not call it: conclave executes it when the URL
// of a store needs an SDK.
package main

import (
	"os"

	"github.com/conclave-project/conclave/cmd/conclave/conclave-stores/places"
	"github.com/conclave-project/conclave/cmd/conclave/internal/command"
	"github.com/conclave-project/conclave/election/backend/azureblob"
	"github.com/conclave-project/conclave/election/backend/consul"
	"github.com/conclave-project/conclave/election/backend/dynamodb"
	"github.com/conclave-project/conclave/election/backend/etcd"
	"github.com/conclave-project/conclave/election/backend/gcs"
	"github.com/conclave-project/conclave/election/backend/kubernetes"
	"github.com/conclave-project/conclave/election/backend/mysql"
	"github.com/conclave-project/conclave/election/backend/nats"
	"github.com/conclave-project/conclave/election/backend/postgres"
	"github.com/conclave-project/conclave/election/backend/redis"
	"github.com/conclave-project/conclave/election/backend/s3"
	"github.com/conclave-project/conclave/election/backend/sqlite"
	redislog "github.com/redis/go-redis/v9/logging"
)

// openers open the stores of command.WithSDK, by scheme.
var openers = map[string]command.Open{
	"azureblob":  azureblob.Open,
	"consul":     consul.Open,
	"dynamodb":   dynamodb.Open,
	"etcd":       etcd.Open,
	"gs":         gcs.Open,
	"kubernetes": kubernetes.Open,
	"mysql":      mysql.Open,
	"nats":       nats.Open,
	"postgres":   postgres.Open,
	"redis":      redis.Open,
	"s3":         s3.Open,
	"sqlite":     sqlite.Open,
}

// placeOpeners open places for backups, by scheme.
var placeOpeners = map[string]command.OpenPlace{
	"azureblob": places.Azure,
	"s3":        places.S3,
}

func main() {
	redislog.Disable() // errors that concern the user are returned anyway
	os.Exit(command.Main(openers, placeOpeners))
}
