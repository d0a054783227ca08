package protocol

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"
	"time"
)

// Codes of the errors that the allocator reports.
const (
	CodeBadRequest = "BadRequest"
	CodeNotLeading = "NotLeading"
	CodeTooLarge   = "TooLarge"
	CodeVersion    = "Version"
	CodeNotReady   = "NotReady"
	CodeBug        = "Bug"
)

const (
	// The host of the URLs; the transport connects to the socket whatever the name.
	baseURL = "http://allocator"
	// Binding runs in one goroutine for each pod, and a burst of pods reuses these connections.
	idleConnections = 128
	// A full backlog is tried again this often, and no longer than this.
	dialInterval = 10 * time.Millisecond
	dialTimeout  = 5 * time.Second
)

// Error is an error that the allocator reports.
type Error struct {
	Status  int
	Code    string `json:"code"`
	Message string `json:"message"`
}

func (e *Error) Error() string {
	return fmt.Sprintf("the allocator answers %d %s: %s", e.Status, e.Code, e.Message)
}

// ErrTooLarge is returned for a request that the allocator would refuse because of its size.
var ErrTooLarge = fmt.Errorf("the request is larger than %d bytes", MaxMessageBytes)

// Client calls one allocator. It is safe for concurrent use.
type Client struct {
	http *http.Client
	// silenceLimit ends an event stream without lines.
	silenceLimit time.Duration
}

// NewClient returns a client of the allocator that listens on the unix socket.
func NewClient(socket string) *Client {
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dial(ctx, socket)
		},
		DisableCompression:  true,
		MaxIdleConns:        idleConnections,
		MaxIdleConnsPerHost: idleConnections,
	}
	return &Client{http: &http.Client{Transport: transport}, silenceLimit: silenceLimit}
}

// dial waits while the backlog of the socket is full, because all members of a gang are bound at once.
func dial(ctx context.Context, socket string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	var dialer net.Dialer
	for {
		connection, err := dialer.DialContext(ctx, "unix", socket)
		if !errors.Is(err, syscall.EAGAIN) {
			return connection, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(dialInterval):
		}
	}
}

// Status asks whether the allocator is ready, and has it renew reservations.
func (c *Client) Status(ctx context.Context, request StatusRequest) (*Status, error) {
	reply := &Status{}
	return reply, c.call(ctx, http.MethodGet, statusPath, request, reply)
}

// PreFilter asks on which nodes the claims of a pod can be allocated.
func (c *Client) PreFilter(ctx context.Context, request *PreFilterRequest) (*PreFilterReply, error) {
	reply := &PreFilterReply{Complete: true}
	return reply, c.call(ctx, http.MethodPost, preFilterPath, request, reply)
}

// PreFilterGroup asks for devices for all members of a group.
func (c *Client) PreFilterGroup(ctx context.Context, request *PreFilterGroupRequest) (*PreFilterReply, error) {
	reply := &PreFilterReply{Complete: true}
	return reply, c.call(ctx, http.MethodPost, groupPath, request, reply)
}

// Reserve promises devices of a node to a pod.
func (c *Client) Reserve(ctx context.Context, request PodOnNode) (*ReserveReply, error) {
	reply := &ReserveReply{}
	return reply, c.call(ctx, http.MethodPost, reservePath, request, reply)
}

// Unreserve takes the promise back, or has it held for a short time.
func (c *Client) Unreserve(ctx context.Context, request UnreserveRequest) error {
	return c.call(ctx, http.MethodPost, unreservePath, request, &struct{}{})
}

// Bind allocates the claims of a pod and binds the pod.
func (c *Client) Bind(ctx context.Context, request PodOnNode) (*BindReply, error) {
	reply := &BindReply{}
	return reply, c.call(ctx, http.MethodPost, bindPath, request, reply)
}

// PostFilter says that no node is left for a pod.
func (c *Client) PostFilter(ctx context.Context, request PodReference) (*PostFilterReply, error) {
	reply := &PostFilterReply{}
	return reply, c.call(ctx, http.MethodPost, postFilterPath, request, reply)
}

// Preempt asks which pods must go so that the claims of a pod can be allocated.
func (c *Client) Preempt(ctx context.Context, request *PreemptRequest) (*PreemptReply, error) {
	reply := &PreemptReply{}
	return reply, c.call(ctx, http.MethodPost, preemptPath, request, reply)
}

func (c *Client) call(ctx context.Context, method, path string, request, reply any) error {
	response, err := c.send(ctx, method, path, request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, MaxMessageBytes+1))
	if err != nil {
		return fmt.Errorf("read the response of %s: %w", path, err)
	}
	if len(body) > MaxMessageBytes {
		return fmt.Errorf("the response of %s is larger than %d bytes", path, MaxMessageBytes)
	}
	if response.StatusCode != http.StatusOK {
		return readError(response.StatusCode, body)
	}
	if err := checkVersion(response.Header.Get(Header)); err != nil {
		return err
	}
	if err := json.Unmarshal(body, reply); err != nil {
		return fmt.Errorf("decode the response of %s: %w", path, err)
	}
	return nil
}

func (c *Client) send(ctx context.Context, method, path string, content any) (*http.Response, error) {
	var body bytes.Buffer
	if content != nil {
		if err := json.NewEncoder(&body).Encode(content); err != nil {
			return nil, fmt.Errorf("encode the request of %s: %w", path, err)
		}
	}
	if body.Len() > MaxMessageBytes {
		return nil, ErrTooLarge
	}
	request, err := http.NewRequestWithContext(ctx, method, baseURL+path, &body)
	if err != nil {
		return nil, err
	}
	request.Header.Set(Header, Version)
	request.Header.Set("Content-Type", "application/json")
	return c.http.Do(request)
}

func readError(status int, body []byte) error {
	var content struct {
		Error Error `json:"error"`
	}
	if json.Unmarshal(body, &content) != nil || content.Error.Code == "" {
		return &Error{Status: status, Code: CodeBug, Message: http.StatusText(status)}
	}
	content.Error.Status = status
	return &content.Error
}

// IsPermanent returns whether the same request would be refused again.
func IsPermanent(err error) bool {
	var reported *Error
	if errors.As(err, &reported) {
		return reported.Code == CodeBadRequest || reported.Code == CodeTooLarge
	}
	return errors.Is(err, ErrTooLarge)
}

// IsVersion returns whether the allocator or this client refuses the version of the other.
func IsVersion(err error) bool {
	var reported *Error
	var refused *VersionError
	return errors.As(err, &reported) && reported.Code == CodeVersion || errors.As(err, &refused)
}

// IsBug returns whether the allocator failed on this request alone.
func IsBug(err error) bool {
	var reported *Error
	return errors.As(err, &reported) && reported.Code == CodeBug
}
