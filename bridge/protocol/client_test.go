package protocol_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"

	"drawbridge.dev/bridge/allocatortest"
	"drawbridge.dev/bridge/protocol"
)

func errorBody(code string) any {
	return map[string]any{"error": map[string]string{"code": code, "message": "the reason"}}
}

func TestErrorsAreTold(t *testing.T) {
	cases := map[string]struct {
		reply     allocatortest.Reply
		permanent bool
		bug       bool
	}{
		"a bad request":            {allocatortest.Reply{Status: 400, Body: errorBody("BadRequest")}, true, false},
		"a request too large":      {allocatortest.Reply{Status: 413, Body: errorBody("TooLarge")}, true, false},
		"a bug":                    {allocatortest.Reply{Status: 500, Body: errorBody("Bug")}, false, true},
		"an error without a code":  {allocatortest.Reply{Status: 500, Body: "no JSON object"}, false, true},
		"an allocator not leading": {allocatortest.Reply{Status: 409, Body: errorBody("NotLeading")}, false, false},
		"an allocator not ready":   {allocatortest.Reply{Status: 503, Body: errorBody("NotReady")}, false, false},
		"a version of the plugin":  {allocatortest.Reply{Status: 426, Body: errorBody("Version")}, false, false},
		"another major version":    {allocatortest.Reply{Version: "2.0", Body: struct{}{}}, false, false},
		"a body of another type":   {allocatortest.Reply{Body: []string{}}, false, false},
	}
	for name, each := range cases {
		t.Run(name, func(t *testing.T) {
			server := allocatortest.New(t)
			server.Reply("/v1/reserve", each.reply)
			_, err := protocol.NewClient(server.Socket).Reserve(t.Context(), protocol.PodOnNode{})
			if err == nil || protocol.IsPermanent(err) != each.permanent || protocol.IsBug(err) != each.bug {
				t.Errorf("got %v, permanent %v, bug %v", err, protocol.IsPermanent(err), protocol.IsBug(err))
			}
		})
	}
}

func TestARequestOverTheLimitIsNotSent(t *testing.T) {
	server := allocatortest.New(t)
	claim := &resourceapi.ResourceClaim{}
	claim.Annotations = map[string]string{"large": strings.Repeat("x", protocol.MaxMessageBytes)}
	request := &protocol.PreFilterRequest{Claims: []*resourceapi.ResourceClaim{claim}}
	_, err := protocol.NewClient(server.Socket).PreFilter(t.Context(), request)
	if !protocol.IsPermanent(err) {
		t.Errorf("got %v", err)
	}
	if sent := server.Take(); len(sent) > 0 {
		t.Errorf("sent %d requests", len(sent))
	}
}

func TestACallFailsWithoutAnAllocator(t *testing.T) {
	_, err := protocol.NewClient("/nonexistent").Status(t.Context(), protocol.StatusRequest{})
	if err == nil || protocol.IsPermanent(err) || protocol.IsBug(err) {
		t.Errorf("got %v", err)
	}
}

func TestTheEventStreamIsReadToItsEnd(t *testing.T) {
	server := allocatortest.New(t)
	server.Reply("/v1/events", allocatortest.Reply{Body: protocol.Event{Activate: []string{"a", "b"}}})
	var got []string
	_ = protocol.NewClient(server.Socket).Events(t.Context(), func(event protocol.Event) {
		got = append(got, event.Activate...)
	})
	if strings.Join(got, " ") != "a b" {
		t.Errorf("got %v", got)
	}
}

func TestARefusedEventStreamIsAnError(t *testing.T) {
	server := allocatortest.New(t)
	server.Reply("/v1/events", allocatortest.Reply{Status: http.StatusConflict, Body: errorBody("NotLeading")})
	err := protocol.NewClient(server.Socket).Events(t.Context(), func(protocol.Event) { t.Error("an event") })
	var reported *protocol.Error
	if !errors.As(err, &reported) || reported.Code != protocol.CodeNotLeading {
		t.Errorf("got %v", err)
	}
}

func TestTheEventStreamEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	server := allocatortest.New(t)
	if err := protocol.NewClient(server.Socket).Events(ctx, func(protocol.Event) {}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
