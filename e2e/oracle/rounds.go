//go:build allocator

package main

import (
	"context"
	"slices"
	"time"

	resourceapi "k8s.io/api/resource/v1"
)

func init() {
	modes["rounds"] = rounds
}

// round is one scheduling cycle: the state is gathered, then every node is asked.
type round struct {
	// Gather is what the plugin keeps up to date between cycles; the nodes are what a cycle costs.
	Gather   float64        `json:"gather_seconds"`
	Seconds  float64        `json:"seconds"`
	Verdicts map[string]int `json:"verdicts"`
}

// rounds answers the same claims once per change, as a cluster does whose state moves between pods.
// A scenario without changes is one round.
func rounds(line []byte) any {
	s, err := read(line)
	if err == nil {
		err = s.unknownGate()
	}
	if err != nil {
		return map[string]string{"error": err.Error()}
	}
	out := []round{}
	for _, change := range append([]change{{}}, s.Changes...) {
		s.apply(change)
		out = append(out, s.round())
	}
	return map[string]any{"name": s.Name, "rounds": out}
}

func (s *scenario) apply(c change) {
	if c.Add != nil {
		s.Allocated = append(s.Allocated, c.Add)
	}
	s.Allocated = slices.DeleteFunc(s.Allocated, func(claim *resourceapi.ResourceClaim) bool {
		return c.Remove != "" && claim.Namespace+"/"+claim.Name == c.Remove
	})
}

func (s *scenario) round() round {
	out := round{Verdicts: map[string]int{}}
	start := time.Now()
	state := gather(s.Allocated, s.features().ConsumableCapacity)
	out.Gather = time.Since(start).Seconds()
	start = time.Now()
	// One allocator for the cycle, as in the scheduler: what it remembers it may use on the next node.
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(s.Seconds*float64(time.Second)))
	defer cancel()
	allocator, err := s.allocator(ctx, state)
	for _, node := range s.Nodes {
		if err != nil {
			out.Verdicts["error"]++
			break
		}
		found, failure := allocator.Allocate(ctx, node, s.Claims)
		switch {
		case failure != nil && ctx.Err() != nil:
			out.Verdicts["timeout"]++
		case failure != nil:
			out.Verdicts["error"]++
		case found == nil:
			out.Verdicts["none"]++
		default:
			out.Verdicts["allocated"]++
		}
	}
	out.Seconds = time.Since(start).Seconds()
	return out
}
