package kubernetes

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	coordination "k8s.io/api/coordination/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/conclave-project/conclave/election/record"
)

const (
	// eventMax is how long a request for an Event may take.
	eventMax = 5 * time.Second
	// eventCloseMax is how long close waits for pending Events.
	eventCloseMax = time.Second
	// eventsOpenMax is how many Events may be pending; further ones are dropped.
	eventsOpenMax = 8
	// eventNameMax leaves space for the suffix that makes the name of an Event unique.
	eventNameMax = 230
)

// happening is an Event of the core API, with only the fields that we set. The API's own
// type would add the types of the whole core API to the program.
type happening struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`
	InvolvedObject  involved          `json:"involvedObject"`
	Reason          string            `json:"reason"`
	Message         string            `json:"message"`
	Source          map[string]string `json:"source"`
	FirstTimestamp  meta.Time         `json:"firstTimestamp"`
	LastTimestamp   meta.Time         `json:"lastTimestamp"`
	Count           int32             `json:"count"`
	Type            string            `json:"type"`
}

type involved struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Namespace  string    `json:"namespace"`
	Name       string    `json:"name"`
	UID        types.UID `json:"uid"`
}

// changes describes what a write has changed in an election; nothing if the leader is the
// same. was and is are the holders' names in the specs.
func changes(before, after record.Record, was, is string) []string {
	if before.Nonce == after.Nonce {
		return nil
	}
	var texts []string
	if before.Nonce != "" {
		texts = append(texts, fmt.Sprintf("%s stopped leading (%s)", was, endOf(before, after)))
	}
	if after.Nonce != "" {
		texts = append(texts, fmt.Sprintf("%s became leader with token %d", is, after.Token))
	}
	return texts
}

// endOf returns the reason for the end of a leadership, as the history has it.
func endOf(before, after record.Record) string {
	for _, tenure := range slices.Backward(after.History) {
		if tenure.Leader == before.Holder && !tenure.Until.IsZero() && tenure.Reason != "" {
			return tenure.Reason
		}
	}
	return "unknown"
}

// announce records Events on a Lease without waiting for them. An Event that cannot be
// recorded, for instance because the permission to create Events is missing, is dropped.
func (s *store) announce(lease *coordination.Lease, texts []string) {
	for _, text := range texts {
		s.mu.Lock()
		full := s.closed || s.events >= eventsOpenMax
		if !full {
			s.events++
			s.group.Add(1)
		}
		s.mu.Unlock()
		if full {
			return
		}
		go func() {
			defer s.group.Done()
			s.post(lease, text)
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.events--; s.events == 0 && s.closed {
				close(s.eventsDone)
			}
		}()
	}
}

func (s *store) post(lease *coordination.Lease, text string) {
	now := time.Now()
	body, err := json.Marshal(happening{
		TypeMeta: meta.TypeMeta{APIVersion: "v1", Kind: "Event"},
		ObjectMeta: meta.ObjectMeta{Namespace: s.namespace,
			Name: fmt.Sprintf("%s.%x", lease.Name[:min(len(lease.Name), eventNameMax)], now.UnixNano())},
		InvolvedObject: involved{coordination.SchemeGroupVersion.String(), "Lease", s.namespace, lease.Name, lease.UID},
		Reason:         "LeaderElection", Message: text, Source: map[string]string{"component": "conclave"},
		FirstTimestamp: meta.NewTime(now), LastTimestamp: meta.NewTime(now), Count: 1, Type: "Normal",
	})
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(s.eventsCtx, eventMax)
	defer cancel()
	_ = s.watcher.Verb(http.MethodPost).MaxRetries(0).AbsPath("/api/v1/namespaces", s.namespace, "events").
		SetHeader("Content-Type", "application/json").Body(body).Do(ctx).Error()
}

// endEvents waits a moment for pending Events: a leader's program closes the backend right
// after it has released the election.
func (s *store) endEvents(open bool) {
	if open {
		timer := time.NewTimer(eventCloseMax)
		defer timer.Stop()
		select {
		case <-s.eventsDone:
		case <-timer.C:
		}
	}
	s.stopEvents()
}
