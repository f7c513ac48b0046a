package tap

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// Kind is how a frame is counted.
type Kind uint8

// The kinds of frames.
const (
	Part      Kind = iota // a part of a request, or a frame that belongs to no request
	Request               // a request
	Heartbeat             // shows that the client lives
)

// A Splitter reads the next frame of a connection.
type Splitter func(from *bufio.Reader) (frame []byte, kind Kind, err error)

// A Protocol returns a splitter for each connection.
type Protocol func() Splitter

// frameMax limits the size of a frame in any protocol.
const frameMax = 64 << 20

// take reads a frame of the given length after its head.
func take(from *bufio.Reader, head []byte, length int64) ([]byte, error) {
	if length < 0 || length > frameMax {
		return nil, fmt.Errorf("tap: a frame of %d bytes", length)
	}
	frame := make([]byte, int64(len(head))+length)
	copy(frame, head)
	_, err := io.ReadFull(from, frame[len(head):])
	return frame, err
}

// ZooKeeper splits frames with their length in front. The first one opens the session.
func ZooKeeper() Splitter {
	opened := false
	return func(from *bufio.Reader) ([]byte, Kind, error) {
		head := make([]byte, 4)
		if _, err := io.ReadFull(from, head); err != nil {
			return nil, Part, err
		}
		frame, err := take(from, head, int64(int32(binary.BigEndian.Uint32(head))))
		if err != nil || !opened {
			opened = true
			return frame, Part, err
		}
		const pingXid = -2
		if len(frame) >= 8 && int32(binary.BigEndian.Uint32(frame[4:])) == pingXid {
			return frame, Heartbeat, nil
		}
		return frame, Request, nil
	}
}

// Redis splits arrays of strings, each with its length.
func Redis() Splitter {
	return func(from *bufio.Reader) ([]byte, Kind, error) {
		frame, count, err := redisLength(from, '*')
		if err != nil {
			return nil, Part, err
		}
		var name []byte
		for n := range count {
			head, length, err := redisLength(from, '$')
			if err != nil {
				return nil, Part, err
			}
			text, err := take(from, head, length+2)
			if err != nil {
				return nil, Part, err
			}
			if n == 0 {
				name = bytes.TrimSpace(text[len(head):])
			}
			frame = append(frame, text...)
		}
		if strings.EqualFold(string(name), "ping") {
			return frame, Heartbeat, nil
		}
		return frame, Request, nil
	}
}

// redisLength reads a line that consists of a mark and a number.
func redisLength(from *bufio.Reader, mark byte) (line []byte, length int64, err error) {
	if line, err = from.ReadBytes('\n'); err != nil {
		return nil, 0, err
	}
	if line[0] != mark {
		return nil, 0, fmt.Errorf("tap: %q where Redis has %q", line, mark)
	}
	length, err = strconv.ParseInt(string(bytes.TrimSpace(line[1:])), 10, 64)
	return line, length, err
}

// Postgres splits messages with a type and a length; the first one has no type.
func Postgres() Splitter {
	started := false
	return func(from *bufio.Reader) ([]byte, Kind, error) {
		size := 5
		if !started {
			size = 4
		}
		head := make([]byte, size)
		if _, err := io.ReadFull(from, head); err != nil {
			return nil, Part, err
		}
		started = true
		frame, err := take(from, head, int64(binary.BigEndian.Uint32(head[size-4:]))-4)
		const execute, query = 'E', 'Q'
		if size == 5 && (head[0] == execute || head[0] == query) {
			return frame, Request, err
		}
		return frame, Part, err
	}
}

// HTTP splits consecutive requests.
func HTTP() Splitter {
	return func(from *bufio.Reader) ([]byte, Kind, error) {
		request, err := http.ReadRequest(from)
		if err != nil {
			return nil, Part, err
		}
		if _, has := request.Header["User-Agent"]; !has {
			request.Header.Set("User-Agent", "") // else one is added
		}
		var frame bytes.Buffer
		err = request.Write(&frame)
		return frame.Bytes(), Request, err
	}
}

// NATS splits lines. A line that publishes is followed by a body, whose length is the
// line's last field.
func NATS() Splitter {
	return func(from *bufio.Reader) ([]byte, Kind, error) {
		line, err := from.ReadBytes('\n')
		if err != nil {
			return nil, Part, err
		}
		fields := strings.Fields(string(line))
		if len(fields) == 0 {
			return line, Part, nil
		}
		switch strings.ToUpper(fields[0]) {
		case "PUB", "HPUB":
			length, err := strconv.ParseInt(fields[len(fields)-1], 10, 64)
			if err != nil {
				return nil, Part, err
			}
			frame, err := take(from, line, length+2)
			return frame, Request, err
		case "PING", "PONG":
			return line, Heartbeat, nil
		case "CONNECT", "SUB", "UNSUB":
			return line, Part, nil
		}
		return nil, Part, fmt.Errorf("tap: %q is not NATS", fields[0])
	}
}
