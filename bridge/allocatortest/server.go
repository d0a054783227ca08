// Package allocatortest is an allocator for tests, on a unix socket.
package allocatortest

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"drawbridge.dev/bridge/protocol"
)

// Reply is the answer to a call.
type Reply struct {
	Status int
	// Version is that of the protocol; empty means the version of this client.
	Version string
	Body    any
	// Lines are sent instead of a body, if there are any.
	Lines []protocol.Event
}

// Request is a call that arrived.
type Request struct {
	Path    string
	Version string
	Body    json.RawMessage
}

// Server answers calls with prepared replies.
type Server struct {
	// Socket is its path.
	Socket string

	mu       sync.Mutex
	replies  map[string]Reply
	requests []Request
}

// New starts a server, which ends with the test. A call without a prepared reply gets 404.
func New(t *testing.T) *Server {
	t.Helper()
	folder, err := os.MkdirTemp("", "bridge") // a socket's path has 108 bytes at most
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	server := &Server{Socket: filepath.Join(folder, "s"), replies: map[string]Reply{}}
	server.start(t)
	return server
}

func (s *Server) start(t *testing.T) {
	t.Helper()
	listener, err := net.Listen("unix", s.Socket)
	if err != nil {
		t.Fatal(err)
	}
	running := &httptest.Server{Listener: listener, Config: &http.Server{Handler: s}} //nolint:gosec // a test
	running.Start()
	t.Cleanup(running.Close)
}

// Reply prepares the answer to all calls of a path.
func (s *Server) Reply(path string, reply Reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replies[path] = reply
}

// Take returns the calls that arrived since the last Take.
func (s *Server) Take() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := s.requests
	s.requests = nil
	return taken
}

// ServeHTTP answers one call.
func (s *Server) ServeHTTP(writer http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		http.Error(writer, err.Error(), http.StatusBadRequest)
		return
	}
	reply := s.note(Request{Path: request.URL.Path, Version: request.Header.Get(protocol.Header), Body: body})
	writer.Header().Set(protocol.Header, reply.Version)
	writer.WriteHeader(reply.Status)
	encoder := json.NewEncoder(writer)
	for _, line := range reply.Lines {
		_ = encoder.Encode(line)
	}
	if reply.Lines == nil {
		_ = encoder.Encode(reply.Body)
	}
}

func (s *Server) note(request Request) Reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, request)
	reply, found := s.replies[request.Path]
	if !found {
		reply.Status = http.StatusNotFound
	}
	if reply.Version == "" {
		reply.Version = protocol.Version
	}
	if reply.Status == 0 {
		reply.Status = http.StatusOK
	}
	return reply
}
