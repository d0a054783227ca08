package protocol

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// The allocator sends a line each second.
const silenceLimit = 3 * time.Second

var errSilent = errors.New("the event stream is silent for too long")

// Events reads the event stream until it ends, is silent for too long, or the context is done.
func (c *Client) Events(ctx context.Context, handle func(Event)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(c.silenceLimit, func() { cancel(errSilent) })
	defer silence.Stop()
	response, err := c.send(ctx, http.MethodGet, eventsPath, nil)
	if err != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(response.Body, MaxMessageBytes))
		return readError(response.StatusCode, body)
	}
	if err := checkVersion(response.Header.Get(Header)); err != nil {
		return err
	}
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, MaxMessageBytes)
	for lines.Scan() {
		silence.Reset(c.silenceLimit)
		var event Event
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			return fmt.Errorf("decode a line of the event stream: %w", err)
		}
		handle(event)
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read the event stream: %w", err)
	}
	return io.EOF
}
