package protocol

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// listenWithoutRoom returns a listener on a unix socket whose backlog is full.
func listenWithoutRoom(t *testing.T) (listener net.Listener, socket string) {
	t.Helper()
	folder, err := os.MkdirTemp("", "bridge") // a socket's path has 108 bytes at most
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	socket = filepath.Join(folder, "s")
	descriptor, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Bind(descriptor, &syscall.SockaddrUnix{Name: socket}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(descriptor, 0); err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(descriptor), socket)
	defer func() { _ = file.Close() }()
	if listener, err = net.FileListener(file); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	for {
		waiting, err := net.Dial("unix", socket)
		if err != nil {
			return listener, socket
		}
		t.Cleanup(func() { _ = waiting.Close() })
	}
}

func TestACallWaitsWhileTheBacklogIsFull(t *testing.T) {
	listener, socket := listenWithoutRoom(t)
	server := &http.Server{Handler: http.HandlerFunc(func(writer http.ResponseWriter, _ *http.Request) { //nolint:gosec // a test
		writer.Header().Set(Header, Version)
		_, _ = writer.Write([]byte(`{"bound": true}`))
	})}
	t.Cleanup(func() { _ = server.Close() })
	time.AfterFunc(3*dialInterval, func() { _ = server.Serve(listener) })
	reply, err := NewClient(socket).Bind(t.Context(), PodOnNode{})
	if err != nil || !reply.Bound {
		t.Errorf("got %+v, %v", reply, err)
	}
}

func TestACallEndsInTimeWhileTheBacklogIsFull(t *testing.T) {
	_, socket := listenWithoutRoom(t)
	ctx, cancel := context.WithTimeout(t.Context(), dialInterval)
	defer cancel()
	if _, err := NewClient(socket).Bind(ctx, PodOnNode{}); err == nil {
		t.Error("a call without a connection succeeds")
	}
}
