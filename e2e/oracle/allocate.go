//go:build allocator

package main

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	dracel "k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
)

func init() {
	modes["allocate"] = allocate
}

// verdict is what the allocator said about one node. Verdict is one of allocated, none, node (an
// error that concerns this node only), error (the whole pod), timeout, panic.
type verdict struct {
	Node        string                         `json:"node"`
	Verdict     string                         `json:"verdict"`
	Message     string                         `json:"message,omitempty"`
	Allocations []resourceapi.AllocationResult `json:"allocations,omitempty"`
	Seconds     float64                        `json:"seconds"`
	// Steps counts the calls of the search's one recursive function, where the variant counts them.
	Steps int64 `json:"steps,omitempty"`
}

type answers struct {
	Name  string    `json:"name,omitempty"`
	Seed  *int64    `json:"seed,omitempty"`
	Nodes []verdict `json:"nodes"`
}

// Programs live as long as the process, one cache per set of features that changes compilation.
var caches = map[dracel.Features]*dracel.Cache{}

func cache(features structured.Features) *dracel.Cache {
	key := dracel.Features{
		EnableConsumableCapacity: features.ConsumableCapacity,
		EnableListTypeAttributes: features.ListTypeAttributes,
	}
	if caches[key] == nil {
		caches[key] = dracel.NewCache(1000, key)
	}
	return caches[key]
}

func allocate(line []byte) any {
	s, err := read(line)
	if err == nil {
		err = s.unknownGate()
	}
	if err != nil {
		return map[string]string{"error": err.Error()}
	}
	state := gather(s.Allocated, s.features().ConsumableCapacity)
	out := answers{Name: s.Name, Seed: s.Seed, Nodes: []verdict{}}
	for _, node := range s.Nodes {
		// What the allocator remembers between nodes must not colour an answer: each node gets its own.
		out.Nodes = append(out.Nodes, s.ask(node, state))
	}
	return out
}

func (s *scenario) allocator(ctx context.Context, state structured.AllocatedState) (structured.Allocator, error) {
	structured.EnableAllocators()
	if s.Variant != "" {
		structured.EnableAllocators(s.Variant)
	}
	features := s.features()
	return structured.NewAllocator(ctx, features, state, classes(s.Classes), s.Slices, cache(features))
}

func (s *scenario) ask(node *corev1.Node, state structured.AllocatedState) (out verdict) {
	limit := time.Duration(s.Seconds * float64(time.Second))
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	out.Node = node.Name
	allocator, err := s.allocator(ctx, state)
	if err != nil {
		out.Verdict, out.Message = "error", err.Error()
		return out
	}
	start := time.Now()
	// Upstream trusts its API server: a step of zero divides. That is an answer, not our end.
	defer func() {
		out.Seconds = time.Since(start).Seconds()
		if broken := recover(); broken != nil {
			out.Verdict, out.Message = "panic", fmt.Sprint(broken)
		}
	}()
	found, err := allocator.Allocate(ctx, node, s.Claims)
	out.Steps = steps(allocator)
	switch {
	case err != nil && ctx.Err() != nil:
		out.Verdict, out.Message = "timeout", err.Error()
	case errors.Is(err, structured.ErrFailedAllocationOnNode):
		out.Verdict, out.Message = "node", err.Error()
	case err != nil:
		out.Verdict, out.Message = "error", err.Error()
	case found == nil:
		out.Verdict = "none"
	default:
		out.Verdict, out.Allocations = "allocated", found
	}
	return out
}

// steps asks by reflection, because the type of the statistics cannot be named from outside.
func steps(allocator structured.Allocator) int64 {
	method := reflect.ValueOf(allocator).MethodByName("GetStats")
	if !method.IsValid() {
		return 0
	}
	return method.Call(nil)[0].FieldByName("NumAllocateOneInvocations").Int()
}
