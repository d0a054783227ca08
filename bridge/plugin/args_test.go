package plugin

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
)

func TestArgsAreStrict(t *testing.T) {
	for text, problem := range map[string]string{
		`{"socket": "/s"}`: "",
		`{"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "DrawbridgeArgs", "socket": "/s"}`: "",
		`{"socket": "/s", "maxNodes": 5, "notReadyLimit": "10s"}`:                                    "",
		`{}`:                               "args.socket is empty",
		`{"socket": "/s", "sockets": 1}`:   `unknown field "sockets"`,
		`{"socket": "/s", "maxNodes": -1}`: "args.maxNodes is -1",
		`{"socket": "/s", "notReadyLimit": "0s"}`: "args.notReadyLimit is 0s",
		`[]`: "decode args",
	} {
		_, err := decodeArgs(&runtime.Unknown{Raw: []byte(text)})
		if (err == nil) != (problem == "") || (err != nil && !strings.Contains(err.Error(), problem)) {
			t.Errorf("%s: got %v", text, err)
		}
	}
	if _, err := decodeArgs(nil); err == nil {
		t.Error("no args are accepted")
	}
}

func TestArgsHaveDefaults(t *testing.T) {
	args, err := decodeArgs(&runtime.Unknown{Raw: []byte(`{"socket": "/s"}`)})
	if err != nil || args.MaxNodes != 20 || args.NotReadyLimit.Duration != 30*time.Second {
		t.Errorf("got %+v, %v", args, err)
	}
}
