package protocol

import (
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"testing"
	"time"
)

// An allocator that is stopped keeps its connections open.
func TestASilentEventStreamEnds(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		writer.Header().Set(Header, Version)
		_, _ = writer.Write([]byte("{\"activateAll\": true}\n"))
		_ = http.NewResponseController(writer).Flush()
		<-request.Context().Done()
	})}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })

	client := NewClient(socket)
	client.silenceLimit = 50 * time.Millisecond
	if err := client.Events(t.Context(), func(Event) {}); !errors.Is(err, errSilent) {
		t.Errorf("got %v", err)
	}
}
