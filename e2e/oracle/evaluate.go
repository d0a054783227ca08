//go:build allocator

package main

import (
	"context"
	"encoding/json"

	resourceapi "k8s.io/api/resource/v1"
	dracel "k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
)

func init() {
	modes["evaluate"] = evaluate
}

// evaluate is for the checker of allocations, which judges everything but expressions itself: one
// device and one expression in, a bool or, for a derived attribute, an attribute out.
func evaluate(line []byte) any {
	var q struct {
		Driver     string             `json:"driver"`
		Device     resourceapi.Device `json:"device"`
		Expression string             `json:"expression"`
		Derived    bool               `json:"derived"`
		Lists      bool               `json:"lists"`
		Shares     bool               `json:"shares"`
	}
	if err := json.Unmarshal(line, &q); err != nil {
		return map[string]string{"error": err.Error()}
	}
	programs := cache(structured.Features{ConsumableCapacity: q.Shares, ListTypeAttributes: q.Lists})
	input := dracel.Device{
		Driver:                   q.Driver,
		AllowMultipleAllocations: q.Device.AllowMultipleAllocations,
		Attributes:               q.Device.Attributes,
		Capacity:                 q.Device.Capacity,
	}
	var value any
	var err error
	if q.Derived {
		program := programs.GetOrCompileDerivedAttribute(q.Expression)
		if program.Error != nil {
			return map[string]string{"error": program.Error.Error()}
		}
		value, _, err = program.EvaluateDerivedAttribute(context.Background(), input)
	} else {
		program := programs.GetOrCompile(q.Expression)
		if program.Error != nil {
			return map[string]string{"error": program.Error.Error()}
		}
		value, _, err = program.DeviceMatches(context.Background(), input)
	}
	if err != nil {
		return map[string]string{"error": err.Error()}
	}
	return map[string]any{"value": value}
}
