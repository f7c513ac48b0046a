package server

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/conclave-project/conclave/internal/audit"
	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/zk"
)

// AuditFile is the name of the audit log.
func (c *Config) AuditFile() string {
	if c.Audit.File != "" {
		return c.Audit.File
	}
	return filepath.Join(c.DataDir, "zookeeper_audit.log")
}

// openAudit opens the audit log, if one is configured: a server that could not write it does
// not start.
func (s *Server) openAudit() error {
	c := &s.cfg
	if !c.Audit.Enabled {
		return nil
	}
	name := c.AuditFile()
	if !c.NoMkdir {
		if err := c.FS.MkdirAll(filepath.Dir(name)); err != nil {
			return fmt.Errorf("%w: the directory cannot be created: %w", ErrAudit, err)
		}
	}
	var err error
	s.audit, err = audit.Open(audit.Options{
		FS: c.FS, File: name, BytesMax: c.Audit.BytesMax, Kept: c.Audit.FilesKept, User: c.Audit.User,
		Clock: c.Clock, Wall: c.Wall, Logger: c.Logger,
	})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrAudit, err)
	}
	return nil
}

// ErrAudit is the error of a start that fails because the audit log cannot be written.
var ErrAudit = errors.New("no audit log")

// auditStart begins the audit log with the result of the start, and returns why the start has
// failed.
func (s *Server) auditStart(failed error) error {
	if s.audit == nil {
		return failed
	}
	e := audit.Event{Operation: audit.ServerStart, Mode: audit.NoMode, Result: audit.Success}
	if failed != nil {
		e.Result = audit.Failure
	}
	if err := s.audit.Begin(&e); failed == nil && err != nil {
		return fmt.Errorf("%w: %w", ErrAudit, err)
	}
	return failed
}

// auditStop adds the end of the server to the audit log.
func (s *Server) auditStop() {
	if s.audit != nil {
		s.audit.Add(&audit.Event{Operation: audit.ServerStop, Mode: audit.NoMode, Result: audit.Invoked})
	}
}

// audited writes a line for everything that clients of this server have changed, or tried to
// change, and for ephemerals that were deleted with their sessions. The loop calls it.
func (s *Server) audited(all []replica.Audited) {
	if len(all) == 0 {
		return
	}
	lines := s.audit.Batch()
	defer lines.End()
	for i := range all {
		a := &all[i]
		switch {
		case a.Asked == nil:
			for _, path := range a.Deleted {
				lines.Add(&audit.Event{
					Session: a.Session, Operation: audit.EphemeralDeletion, Path: path, Mode: audit.NoMode, Result: audit.Success,
				})
			}
		case a.Asked.Request.Op == zk.OpMulti:
			auditMulti(&lines, a)
		default:
			auditOne(&lines, a)
		}
	}
}

// auditedAs returns the operation to log for a request, "" for requests without a line.
func auditedAs(op zk.Op) audit.Operation {
	switch op {
	case zk.OpCreate, zk.OpCreate2, zk.OpCreateContainer, zk.OpCreateTTL:
		return audit.Create
	case zk.OpDelete, zk.OpDeleteContainer:
		return audit.Delete
	case zk.OpSetData:
		return audit.SetData
	case zk.OpSetACL:
		return audit.SetACL
	case zk.OpReconfig:
		return audit.Reconfig
	}
	return ""
}

// auditOne writes a line for a request with one operation.
func auditOne(lines *audit.Batch, a *replica.Audited) {
	req := a.Asked.Request
	op := auditedAs(req.Op)
	if op == "" {
		return
	}
	e := audit.Event{
		Session: a.Session, Client: a.Asked.Identities, Operation: op, Path: req.Path, Mode: audit.NoMode, Result: audit.Success,
	}
	if a.Code != zk.OK {
		e.Result = audit.Failure
	}
	switch {
	case op == audit.Reconfig:
		if a.Code == zk.OK {
			e.Path = zk.ConfigPath
		}
	case op == audit.SetACL:
		e.ACL = req.ACL
	case op == audit.Create:
		e.Mode = req.Mode
		if a.Code == zk.OK {
			e.Path = a.Path
		}
	}
	lines.Add(&e)
}

// auditMulti writes a line for each change of a multi, or a single line if the multi has
// changed nothing.
func auditMulti(lines *audit.Batch, a *replica.Audited) {
	e := audit.Event{Session: a.Session, Client: a.Asked.Identities, Mode: audit.NoMode}
	failed := a.Code != zk.OK
	for i := range a.Parts {
		failed = failed || a.Parts[i].Code != zk.OK
	}
	if failed {
		e.Operation, e.Result = audit.Multi, audit.Failure
		lines.Add(&e)
		return
	}
	for i := range a.Parts {
		op := auditedAs(a.Parts[i].Op)
		if op == "" || i >= len(a.Asked.Request.Ops) {
			continue // a check
		}
		asked := &a.Asked.Request.Ops[i]
		e.Operation, e.Result, e.Path, e.Mode = op, audit.Success, asked.Path, audit.NoMode
		if op == audit.Create {
			e.Path, e.Mode = a.Parts[i].Path, asked.Mode
		}
		lines.Add(&e)
	}
}
