package fence

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/conclave-project/conclave/election"
)

// tokenFile is the file of a Fence, as readable text:
//
//	conclave fence 1
//	token 42 "orders"
//	token 7 "reports"
//	crc32c 1a2b3c4d           of all bytes before this line
//
// It is written whenever a token is raised: once for each leadership and resource.
type tokenFile struct {
	path   string
	locked *held

	mu     sync.Mutex // held during a write, so writes do not overlap
	tokens map[string]election.Token
}

const tokensHeader = "conclave fence 1\n"

// Open returns a fence that keeps its tokens in a file, which it creates if it does not exist.
// The file is locked until Close: no other process can open it, and a second Open fails. A
// damaged file is refused.
func Open(path string) (*Fence, error) {
	b, err := openTokens(path)
	if err != nil {
		return nil, fmt.Errorf("fence: open %s: %w", path, err)
	}
	f := New()
	f.file = b
	for resource, token := range b.tokens {
		f.gates[resource] = &gate{seen: token}
	}
	return f, nil
}

// Close ends the contexts of all acts, waits until they have returned, and then lets another
// process open the file; do not call it from within an act. From then on the fence accepts no
// token. A fence in memory has nothing to close.
func (f *Fence) Close() error {
	if f.file == nil {
		return nil
	}
	for _, gone := range f.dismissAll() {
		<-gone
	}
	f.file.mu.Lock()
	defer f.file.mu.Unlock()
	if f.file.locked == nil {
		return nil
	}
	err := f.file.locked.Close()
	f.file.locked = nil
	return err
}

// dismissAll accepts no further acts and ends the contexts of the running ones. The
// returned channels are closed when these have returned.
func (f *Fence) dismissAll() (gone []<-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	for _, g := range f.gates {
		if g.in != nil {
			g.in.dismiss(errClosed)
			gone = append(gone, g.in.gone)
		}
	}
	return gone
}

func openTokens(path string) (*tokenFile, error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("one process at a time may have it open")) // an ended context: lock makes one attempt
	path = target(path)
	locked, err := lock(ctx, path)
	if err != nil {
		return nil, err
	}
	text, err := readFile(path)
	tokens := make(map[string]election.Token)
	if err == nil && text != nil {
		tokens, err = decodeTokens(text)
	}
	if err != nil {
		_ = locked.Close()
		return nil, err
	}
	return &tokenFile{path: path, locked: locked, tokens: tokens}, nil
}

var errClosed = errors.New("the fence was closed")

// raise stores a token if it is higher than the stored one.
func (b *tokenFile) raise(resource string, token election.Token) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.locked == nil {
		return errClosed
	}
	if token <= b.tokens[resource] {
		return nil
	}
	next := maps.Clone(b.tokens)
	next[resource] = token
	if err := replace(b.path, encodeTokens(next), b.locked.check); err != nil {
		return fmt.Errorf("store token %d: %w", token, err)
	}
	b.tokens = next
	return nil
}

func encodeTokens(tokens map[string]election.Token) []byte {
	var b bytes.Buffer
	b.WriteString(tokensHeader)
	for _, resource := range slices.Sorted(maps.Keys(tokens)) {
		fmt.Fprintf(&b, "token %d %q\n", tokens[resource], resource)
	}
	fmt.Fprintf(&b, "crc32c %08x\n", crc32.Checksum(b.Bytes(), castagnoli))
	return b.Bytes()
}

// decodeTokens accepts only what encodeTokens has written.
func decodeTokens(text []byte) (map[string]election.Token, error) {
	at := bytes.LastIndex(text, []byte("\ncrc32c ")) + 1
	sum := fmt.Sprintf("crc32c %08x\n", crc32.Checksum(text[:at], castagnoli))
	if at == 0 || string(text[at:]) != sum || !bytes.HasPrefix(text, []byte(tokensHeader)) {
		return nil, fmt.Errorf("the file (%d bytes) %w", len(text), errDamaged)
	}
	tokens := make(map[string]election.Token)
	for line := range strings.Lines(string(text[len(tokensHeader):at])) {
		var token election.Token
		var resource string
		if _, err := fmt.Sscanf(line, "token %d %q\n", &token, &resource); err != nil {
			return nil, fmt.Errorf("the line %q %w", line, errDamaged)
		}
		tokens[resource] = token
	}
	return tokens, nil
}
