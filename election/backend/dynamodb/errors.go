package dynamodb

import (
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/record"
)

// explain says what was being done, and marks final errors. Unknown errors (throttling,
// time-outs, trouble in the service) count as temporary; a write that ended with one may or
// may not have been carried out.
func (s *store) explain(what string, err error) error {
	var refused *types.ConditionalCheckFailedException
	if errors.As(err, &refused) {
		err = record.ErrConflict
	}
	err = fmt.Errorf("%s table %q: %w", what, s.options.Table, err)
	if errors.Is(err, errNotOurs) {
		return election.Permanent(err)
	}
	var answer smithy.APIError
	if !errors.As(err, &answer) {
		return err
	}
	switch answer.ErrorCode() {
	case "ResourceNotFoundException":
		return election.Permanent(fmt.Errorf("%w (no such table in this Region; "+
			"make it with CreateTable, or open the URL with create=true)", err))
	case "ValidationException":
		return election.Permanent(fmt.Errorf("%w (the table must have the partition key %q "+
			"of type S and no sort key)", err, s.options.Key))
	case "AccessDeniedException":
		return election.Permanent(fmt.Errorf("%w (needed: dynamodb:GetItem and PutItem; "+
			"Scan to list; CreateTable and DescribeTable to make the table)", err))
	case "UnrecognizedClientException", "InvalidSignatureException":
		if strings.HasPrefix(answer.ErrorMessage(), "Signature ") { // has expired, or is not yet current: a clock is wrong
			return err
		}
		return election.Permanent(fmt.Errorf("%w (the service does not know these keys: see AWS_ACCESS_KEY_ID, "+
			"AWS_SECRET_ACCESS_KEY, AWS_PROFILE and ~/.aws/credentials)", err))
	}
	return err
}
