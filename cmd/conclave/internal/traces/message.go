package traces

import (
	"fmt"
	"strconv"

	"github.com/conclave-project/conclave/internal/server"
	"github.com/conclave-project/conclave/zk"
)

// The messages of opentelemetry-proto that are needed, in OTLP's JSON form: 64-bit numbers
// are text, ids hexadecimal.
type (
	message struct {
		ResourceSpans []resourceSpans `json:"resourceSpans"`
	}
	resourceSpans struct {
		Resource   resource     `json:"resource"`
		ScopeSpans []scopeSpans `json:"scopeSpans"`
	}
	resource struct {
		Attributes []attribute `json:"attributes"`
	}
	scopeSpans struct {
		Scope scope  `json:"scope"`
		Spans []span `json:"spans"`
	}
	scope struct {
		Name string `json:"name"`
	}
	span struct {
		TraceID    string      `json:"traceId"`
		SpanID     string      `json:"spanId"`
		Parent     string      `json:"parentSpanId,omitempty"`
		Name       string      `json:"name"`
		Kind       int         `json:"kind"`
		Start      string      `json:"startTimeUnixNano"`
		End        string      `json:"endTimeUnixNano"`
		Attributes []attribute `json:"attributes"`
		Status     *status     `json:"status,omitempty"`
	}
	status struct {
		Code    int    `json:"code"`
		Message string `json:"message,omitempty"`
	}
	attribute struct {
		Key   string `json:"key"`
		Value value  `json:"value"`
	}
	value struct {
		Text *string `json:"stringValue,omitempty"`
		Int  string  `json:"intValue,omitempty"`
	}
)

// The kinds of spans, and the status of a failed span, by their numbers in OTLP.
const (
	kindInternal = 1
	kindServer   = 2
	statusError  = 2
)

func textOf(key, text string) attribute { return attribute{key, value{Text: &text}} }

func numberOf(key string, n int64) attribute {
	return attribute{key, value{Int: strconv.FormatInt(n, 10)}}
}

// message returns one request with some spans.
func (e *Exporter) message(some []server.Span) message {
	spans := make([]span, len(some))
	for i := range some {
		spans[i] = spanOf(&some[i])
	}
	return message{[]resourceSpans{{e.resource, []scopeSpans{{scope{"conclave"}, spans}}}}}
}

func spanOf(s *server.Span) span {
	out := span{
		TraceID: fmt.Sprintf("%016x%016x", s.Trace[0], s.Trace[1]), SpanID: fmt.Sprintf("%016x", s.ID), Name: s.Name, Kind: kindInternal,
		Start: strconv.FormatInt(s.StartNano, 10), End: strconv.FormatInt(s.EndNano, 10),
		Attributes: []attribute{
			numberOf("conclave.server", int64(s.Server)), textOf("zookeeper.session", fmt.Sprintf("0x%x", uint64(s.Session))),
			numberOf("zookeeper.xid", int64(s.Cxid)), textOf("zookeeper.zxid", s.Zxid.String()),
		},
	}
	if s.Parent != 0 {
		out.Parent = fmt.Sprintf("%016x", s.Parent)
	}
	if s.Name != server.SpanRequest {
		return out
	}
	out.Kind = kindServer
	out.Attributes = append(out.Attributes, textOf("zookeeper.op", s.Op.String()), textOf("zookeeper.path", s.Path))
	if s.Code != zk.OK {
		out.Status = &status{statusError, s.Code.Error()}
	}
	return out
}
