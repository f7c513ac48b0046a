package s3

import (
	"errors"
	"fmt"
	"slices"

	"github.com/aws/smithy-go"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/record"
)

// isCode reports whether the store answered with one of these codes.
func isCode(err error, codes ...string) bool {
	var answer smithy.APIError
	return errors.As(err, &answer) && slices.Contains(codes, answer.ErrorCode())
}

// isRefused reports whether a condition did not hold. For a put on an object that is gone,
// the answer is NoSuchKey.
func isRefused(err error) bool {
	return isCode(err, "PreconditionFailed", "NoSuchKey", "NotFound")
}

// explain says what was being done, and marks final errors. Unknown errors (slow down,
// time-outs, 409 when two conditional writes met) count as temporary; a write that ended
// with one may or may not have been carried out.
func (s *store) explain(what, key string, err error) error {
	if what == "put" && isRefused(err) {
		err = record.ErrConflict
	}
	err = fmt.Errorf("%s %s in bucket %q: %w", what, key, s.options.Bucket, err)
	switch {
	case errors.Is(err, errNotOurs):
		return election.Permanent(err)
	case isCode(err, "NoSuchBucket"):
		return election.Permanent(fmt.Errorf("%w (make the bucket first, in the Region that is configured)", err))
	case isCode(err, "AccessDenied", "Forbidden"):
		return election.Permanent(fmt.Errorf("%w (needed: s3:GetObject and s3:PutObject on PREFIX/*, "+
			"and s3:ListBucket, without which a missing object looks forbidden)", err))
	case isCode(err, "InvalidAccessKeyId", "SignatureDoesNotMatch"):
		return election.Permanent(fmt.Errorf("%w (the store does not know these keys: see AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, "+
			"AWS_PROFILE and ~/.aws/credentials)", err))
	case isCode(err, "NotImplemented"):
		return election.Permanent(fmt.Errorf("%w: %w", ErrConditions, err))
	}
	return err
}
