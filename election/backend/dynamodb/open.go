package dynamodb

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go/logging"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/internal/storeurl"
	"github.com/conclave-project/conclave/election/record"
	"github.com/conclave-project/conclave/internal/redact"
)

// URLExample is a URL that Open takes.
const URLExample = "dynamodb://conclave-elections?region=eu-central-1"

// Open returns the backend of a URL:
//
//	dynamodb://TABLE[?region=R][&endpoint=URL][&key=ATTRIBUTE][&poll=2s][&create=true]
//
// Credentials and, unless given, the Region come from where AWS's tools look for them: the
// environment, the shared files, the role of the machine. With create=true the first candidate
// creates the table if it does not exist (dynamodb-D5). The returned function releases resources; call it when nothing of the
// backend runs any more.
func Open(ctx context.Context, text string) (election.Backend, func() error, error) {
	target, err := parseURL(text)
	if err != nil {
		return nil, nil, err
	}
	// The SDK's log would write a warning to the program's standard error for every
	// conflict whose answer has a checksum.
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
	s, err := newStore(client, target.options)
	if err != nil {
		return nil, nil, err
	}
	s.create = target.create
	return record.New(s, record.Options{}), func() error { return nil }, nil
}

// target is the content of a URL.
type target struct {
	options  Options
	endpoint string
	create   bool
	load     []func(*config.LoadOptions) error
}

// form describes the URLs.
var form = storeurl.Form{Backend: "dynamodb", Schemes: []string{"dynamodb"}, Example: URLExample, Credentials: "the environment or AWS's files"}

func parseURL(text string) (t target, err error) {
	u, values, err := form.Parse(text)
	switch {
	case err != nil:
	case u.Host == "" || strings.Contains(u.Host, ":"):
		err = errors.New("it names no table")
	case u.Path != "" && u.Path != "/":
		err = errors.New("there is a path after the table")
	}
	if err != nil {
		return t, form.Refuse(text, err)
	}
	t.options.Table = u.Host
	err = storeurl.Parameters{
		"region": func(region string) error {
			t.load = append(t.load, config.WithRegion(region))
			return nil
		},
		"endpoint": storeurl.Text(&t.endpoint),
		"key":      storeurl.Text(&t.options.Key),
		"poll":     storeurl.Duration(&t.options.Poll),
		"create":   storeurl.Bool(&t.create),
	}.Read(values)
	if err == nil {
		t.options, err = t.options.validate()
	}
	if err != nil {
		return t, form.Refuse(text, err)
	}
	return t, nil
}
