package server

import (
	"context"
	"log/slog"
	"time"

	"github.com/conclave-project/conclave/internal/eventqueue"
)

// logQueue is between the server and its log, which may be a full pipe or a slow disk: nobody
// waits for the log, least of all the loop. If the queue is full, its oldest lines are dropped,
// and the next line says how many are missing.
type logQueue = eventqueue.Queue[logLine]

type logLine struct {
	to     slog.Handler
	record slog.Record
	missed int
}

// LogAside returns a log whose callers never wait for the one that is given, for what runs beside
// a server, and a function that waits for its lines for a moment. A server uses the same queue.
func LogAside(log *slog.Logger) (aside *slog.Logger, wait func()) {
	queue, aside := logAside(log)
	return aside, func() { queue.WaitFor(logWaitMax) }
}

// logAside returns the queue of a log, and a log that writes its lines to the queue.
func logAside(log *slog.Logger) (*logQueue, *slog.Logger) {
	if h, ok := log.Handler().(*asideHandler); ok {
		return h.queue, log
	}
	queue := eventqueue.New(logLine.tell, func(l *logLine) *int { return &l.missed })
	return queue, slog.New(&asideHandler{queue, log.Handler()})
}

func (l logLine) tell() {
	if l.missed > 0 {
		l.record.AddAttrs(slog.Int("linesMissing", l.missed))
	}
	_ = l.to.Handle(context.Background(), l.record) // there is nobody to report the error to
}

// logWaitMax is how long the end of the server waits for its log.
const logWaitMax = time.Second

// asideHandler puts lines into the queue.
type asideHandler struct {
	queue *logQueue
	to    slog.Handler
}

func (h *asideHandler) Enabled(c context.Context, level slog.Level) bool {
	return h.to.Enabled(c, level)
}

func (h *asideHandler) Handle(_ context.Context, r slog.Record) error {
	h.queue.Put(logLine{to: h.to, record: r.Clone()})
	return nil
}

func (h *asideHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &asideHandler{h.queue, h.to.WithAttrs(attrs)}
}

func (h *asideHandler) WithGroup(name string) slog.Handler {
	return &asideHandler{h.queue, h.to.WithGroup(name)}
}
