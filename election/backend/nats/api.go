package nats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/internal/polling"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// message is the last message of a key.
type message struct {
	revision uint64
	data     []byte
	deleted  bool
}

// streamInfo is the part of a stream's information that is used here.
type streamInfo struct {
	Config struct {
		MaxAge   time.Duration         `json:"max_age"`
		Replicas int                   `json:"num_replicas"`
		Storage  jetstream.StorageType `json:"storage"`
	} `json:"config"`
	Created time.Time `json:"created"`
	Cluster struct {
		Name   string    `json:"name"` // empty for a server that is not in a cluster
		Leader string    `json:"leader"`
		Since  time.Time `json:"leader_since"`
	} `json:"cluster"`
}

// request makes a request to JetStream without the client library, which reads from any
// replica if the bucket allows it (nats-J3), and does not report leaders.
func (s *store) request(ctx context.Context, what string, body, answer any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	options := s.js.Options()
	prefix := jetstream.DefaultAPIPrefix
	switch {
	case options.APIPrefix != "":
		prefix = options.APIPrefix
	case options.Domain != "":
		prefix = fmt.Sprintf("$JS.%s.API.", options.Domain)
	}
	reply, err := s.js.Conn().RequestWithContext(ctx, prefix+what+"."+s.stream(), text)
	if err != nil {
		return err
	}
	var failure struct {
		Error *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(reply.Data, &failure); err != nil {
		return fmt.Errorf("answer to %s: %w", what, err)
	}
	if failure.Error != nil {
		return failure.Error
	}
	return json.Unmarshal(reply.Data, answer)
}

func (s *store) stream() string { return "KV_" + s.options.Bucket }

func (s *store) subject(key string) string { return "$KV." + s.options.Bucket + "." + key }

// last returns the last message of a key from the leader of the stream. The revision is 0
// if there is none, or no bucket.
func (s *store) last(ctx context.Context, key string) (message, error) {
	var answer struct {
		Message struct {
			Sequence uint64 `json:"seq"`
			Header   []byte `json:"hdrs"`
			Data     []byte `json:"data"`
		} `json:"message"`
	}
	err := s.request(ctx, "STREAM.MSG.GET", map[string]string{"last_by_subj": s.subject(key)}, &answer)
	if hasCode(err, jetstream.JSErrCodeMessageNotFound, jetstream.JSErrCodeStreamNotFound) {
		return message{}, nil
	}
	m := message{revision: answer.Message.Sequence, data: answer.Message.Data}
	if err == nil && len(answer.Message.Header) > 0 {
		var header nats.Header
		header, err = nats.DecodeHeadersMsg(answer.Message.Header)
		m.deleted = header.Get("KV-Operation") != "" || header.Get("Nats-Marker-Reason") != ""
	}
	return m, err
}

// subjects returns the keys for which the leader of the stream has a message, including
// deletions; none if there is no bucket. The answer comes in pages.
func (s *store) subjects(ctx context.Context) (keys []string, err error) {
	for {
		var answer struct {
			Total int `json:"total"`
			State struct {
				Subjects map[string]uint64 `json:"subjects"`
			} `json:"state"`
		}
		body := map[string]any{"subjects_filter": s.subject(">"), "offset": len(keys)}
		err := s.request(ctx, "STREAM.INFO", body, &answer)
		if hasCode(err, jetstream.JSErrCodeStreamNotFound) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		for subject := range answer.State.Subjects {
			keys = append(keys, strings.TrimPrefix(subject, s.subject("")))
		}
		if len(answer.State.Subjects) == 0 || len(keys) >= answer.Total {
			return keys, nil
		}
	}
}

// publish writes a message if the last one of its key has the revision. While another
// message of the key is in flight, the servers refuse at once and store nothing. Trying
// again is then not a second attempt.
func (s *store) publish(ctx context.Context, key string, data []byte, revision uint64) (uint64, error) {
	for pause := inFlightPause; ; pause = min(2*pause, inFlightPauseMax) {
		m := &nats.Msg{Subject: s.subject(key), Data: data}
		ack, err := s.js.PublishMsg(ctx, m, jetstream.WithExpectLastSequencePerSubject(revision), jetstream.WithRetryAttempts(0))
		if err == nil {
			return ack.Sequence, nil
		}
		inFlight := hasCode(err, jetstream.JSErrCodeStreamWrongLastSequenceConstant)
		if !inFlight || polling.Sleep(ctx, polling.Jitter(pause)) != nil {
			return 0, err
		}
	}
}

// The pauses before a message that met another one in flight is sent again.
const (
	inFlightPause    = 4 * time.Millisecond
	inFlightPauseMax = 128 * time.Millisecond
)

// isConflict reports whether the key no longer has the expected revision. A message that
// met another one in flight is not a conflict, because the other one may be stored later,
// or never (record-R5).
func isConflict(err error) bool { return hasCode(err, jetstream.JSErrCodeStreamWrongLastSequence) }

func hasCode(err error, codes ...jetstream.ErrorCode) bool {
	var coded jetstream.JetStreamError
	if !errors.As(err, &coded) || coded.APIError() == nil {
		return false
	}
	for _, code := range codes {
		if coded.APIError().ErrorCode == code {
			return true
		}
	}
	return false
}

// info returns the incarnation of the bucket, or an error if the bucket cannot be used. If
// there is no bucket, it creates one.
func (s *store) info(ctx context.Context) (string, error) {
	var info streamInfo
	err := s.request(ctx, "STREAM.INFO", struct{}{}, &info)
	if hasCode(err, jetstream.JSErrCodeStreamNotFound) {
		if err := s.makeBucket(ctx); err != nil {
			return "", err
		}
		err = s.request(ctx, "STREAM.INFO", struct{}{}, &info)
	}
	if err != nil {
		return "", err
	}
	if info.Config.MaxAge != 0 {
		return "", election.Permanent(fmt.Errorf("its values expire after %v by the server's clock; choose another with bucket=NAME, "+
			"or take the TTL away", info.Config.MaxAge))
	}
	connection := s.js.Conn()
	return incarnationOf(info, server{cluster: connection.ConnectedClusterName(),
		name: connection.ConnectedServerName(), id: connection.ConnectedServerId()})
}

// server is the server that the connection leads to.
type server struct{ cluster, name, id string }

// incarnationOf returns when the bucket was created and, for one that is not replicated,
// which start of which server has it (nats-J4). The start of a server that is not in a
// cluster is known only on a direct connection. Through a leaf node nobody would notice a
// restart, so that is refused. So are replicas in memory, which have forgotten everything
// when most of them have restarted.
func incarnationOf(info streamInfo, to server) (string, error) {
	incarnation := info.Created.UTC().Format(time.RFC3339Nano)
	if info.Config.Replicas > 1 {
		if info.Config.Storage == jetstream.MemoryStorage {
			return "", election.Permanent(errors.New("its replicas keep it in memory: nobody would notice here that most of them " +
				"began again and forgot; choose another with bucket=NAME, on disk"))
		}
		return incarnation, nil
	}
	incarnation += "/" + info.Cluster.Leader + "/" + info.Cluster.Since.UTC().Format(time.RFC3339Nano)
	alone := info.Cluster.Name == "" && info.Cluster.Since.IsZero()
	switch {
	case alone && info.Cluster.Leader != "" && info.Cluster.Leader != to.name:
		return "", election.Permanent(fmt.Errorf("it has one replica, on the server %q, and this connection goes to %q: nobody would "+
			"notice here that %[1]q began again and forgot; connect to it, or let the bucket have 3 replicas", info.Cluster.Leader, to.name))
	case to.cluster == "": // the single server, by the id of this start
		incarnation += "/" + to.id
	}
	return incarnation, nil
}

// makeBucket creates a stream as the client library would for a bucket, except that its
// numbers begin high (nats-J1) and that it has no direct reads.
func (s *store) makeBucket(ctx context.Context) error {
	_, err := s.js.CreateStream(ctx, jetstream.StreamConfig{
		Name: s.stream(), Subjects: []string{s.subject(">")}, Description: "Leader elections of Conclave",
		Storage: jetstream.FileStorage, Replicas: s.options.Replicas,
		MaxMsgsPerSubject: 1, MaxMsgs: -1, MaxBytes: -1, MaxMsgSize: -1, MaxConsumers: -1, Duplicates: 2 * time.Minute,
		Discard: jetstream.DiscardNew, AllowRollup: true, DenyDelete: true,
		FirstSeq: uint64(max(1, time.Now().UnixMilli())),
	})
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		return nil // another candidate was faster
	}
	return err
}
