package dynamodb

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go/logging"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/internal/redact"
)

// URLExample is a URL that Open takes.
const URLExample = "dynamodb://conclave-elections?region=eu-central-1"

// Open returns the backend of a URL:
//
//	dynamodb://TABLE[?region=R][&endpoint=URL][&key=ATTRIBUTE][&poll=2s][&create=true]
//
// Credentials and, unless given, the Region come from where AWS's tools look
// for them: the environment, the shared files, the role of the machine. With
// create=true the table is made if it does not exist. The function returned
// gives resources back; it may be called once nothing of the backend runs.
func Open(ctx context.Context, text string) (election.Backend, func() error, error) {
	target, err := parseURL(text)
	if err != nil {
		return nil, nil, err
	}
	// The SDK's own log would warn of every answer "conflict" that carries a
	// checksum, into the program's standard error.
	load := append(target.load, config.WithLogger(logging.Nop{}))
	loaded, err := config.LoadDefaultConfig(ctx, load...)
	if err != nil {
		return nil, nil, fmt.Errorf("dynamodb: configuration of AWS: %w", err)
	}
	if loaded.Region == "" {
		return nil, nil, fmt.Errorf("dynamodb: %q: no Region; add ?region=... or set AWS_REGION", redact.URL(text))
	}
	client := dynamodb.NewFromConfig(loaded, func(o *dynamodb.Options) {
		if target.endpoint != "" {
			o.BaseEndpoint = aws.String(target.endpoint)
		}
	})
	if target.create {
		if err := CreateTable(ctx, client, target.options); err != nil {
			return nil, nil, err
		}
	}
	backend, err := New(client, target.options)
	if err != nil {
		return nil, nil, err
	}
	return backend, func() error { return nil }, nil
}

// target is what a URL says.
type target struct {
	options  Options
	endpoint string
	create   bool
	load     []func(*config.LoadOptions) error
}

func parseURL(text string) (target, error) {
	var t target
	bad := func(format string, args ...any) (target, error) {
		return t, election.Permanent(fmt.Errorf("dynamodb: %q: %w; write for example %s", redact.URL(text), fmt.Errorf(format, args...), URLExample))
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return bad("not a URL")
	case u.Scheme != "dynamodb":
		return bad("the scheme is not dynamodb")
	case u.Host == "" || strings.Contains(u.Host, ":"):
		return bad("it names no table")
	case u.Path != "" && u.Path != "/":
		return bad("there is a path after the table")
	case u.User != nil:
		return bad("credentials are not taken from a URL, but from the environment or AWS's files")
	}
	t.options.Table = u.Host
	for name, values := range u.Query() {
		value := values[len(values)-1]
		switch name {
		case "region":
			t.load = append(t.load, config.WithRegion(value))
		case "endpoint":
			t.endpoint = value
		case "key":
			t.options.Key = value
		case "poll":
			t.options.Poll, err = time.ParseDuration(value)
		case "create":
			t.create, err = strconv.ParseBool(value)
		default:
			return bad("unknown parameter %q", name)
		}
		if err != nil {
			return bad("parameter %s: %w", name, err)
		}
	}
	if t.options, err = t.options.validate(); err != nil {
		return bad("%w", err)
	}
	return t, nil
}
