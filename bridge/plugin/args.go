package plugin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// Args is the part of the scheduler's configuration that belongs to the plugin.
type Args struct {
	metav1.TypeMeta `json:",inline"`
	// Socket is the path of the unix socket of the allocator.
	Socket string `json:"socket"`
	// MaxNodes limits the nodes that the allocator names at first; 0 means every node that fits.
	MaxNodes int `json:"maxNodes"`
	// NotReadyLimit is how long this scheduler leads while its allocator is not ready.
	NotReadyLimit metav1.Duration `json:"notReadyLimit"`
}

func decodeArgs(configuration runtime.Object) (Args, error) {
	args := Args{MaxNodes: defaultMaxNodes, NotReadyLimit: metav1.Duration{Duration: defaultNotReadyLimit}}
	unknown, ok := configuration.(*runtime.Unknown)
	if !ok || unknown == nil {
		return args, errors.New("args are missing; set args.socket to the socket of the allocator")
	}
	text, err := yaml.YAMLToJSONStrict(unknown.Raw) // JSON is YAML
	if err != nil {
		return args, fmt.Errorf("decode args: %w", err)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&args); err != nil {
		return args, fmt.Errorf("decode args: %w", err)
	}
	switch {
	case args.Socket == "":
		return args, errors.New("args.socket is empty; set it to the socket of the allocator")
	case args.MaxNodes < 0:
		return args, fmt.Errorf("args.maxNodes is %d; set it to 0 or more", args.MaxNodes)
	case args.NotReadyLimit.Duration <= 0:
		return args, fmt.Errorf("args.notReadyLimit is %s; set it above 0", args.NotReadyLimit.Duration)
	}
	return args, nil
}
