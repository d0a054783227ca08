//go:build allocator

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/dynamic-resource-allocation/structured"
)

// scenario is one question to an allocator, in objects as the API server stores them: defaults are
// filled in, nothing is added here.
type scenario struct {
	Name    string          `json:"name"`
	Seed    *int64          `json:"seed"`
	Gates   map[string]bool `json:"gates"`
	Version string          `json:"version"`
	// Variant forces stable, incubating or experimental; empty means as Kubernetes chooses.
	Variant   string                         `json:"variant"`
	Nodes     []*corev1.Node                 `json:"nodes"`
	Slices    []*resourceapi.ResourceSlice   `json:"slices"`
	Classes   []*resourceapi.DeviceClass     `json:"classes"`
	Claims    []*resourceapi.ResourceClaim   `json:"claims"`
	Allocated []*resourceapi.ResourceClaim   `json:"allocated"`
	Rules     []*resourceapi.DeviceTaintRule `json:"rules"`
	// Seconds limits the search on one node; 0 means 5.
	Seconds float64 `json:"seconds"`
	// Deviates is a note of what another allocator answers on purpose.
	Deviates json.RawMessage `json:"deviates"`
	// Changes happen one before each round of `oracle rounds`.
	Changes []change `json:"changes"`
}

// change adds an allocated claim or removes one by name.
type change struct {
	Add    *resourceapi.ResourceClaim `json:"add"`
	Remove string                     `json:"remove"`
}

func read(line []byte) (*scenario, error) {
	decoder := json.NewDecoder(bytes.NewReader(line))
	// A misspelt field would silently be another scenario.
	decoder.DisallowUnknownFields()
	var s scenario
	if err := decoder.Decode(&s); err != nil {
		return nil, err
	}
	if s.Seconds == 0 {
		s.Seconds = 5
	}
	s.Slices = tainted(s.Slices, s.Rules, s.enabled("DRADeviceTaintRules"))
	return &s, nil
}

// since tells the first minor version in which a gate is on by default.
var since = map[string]int{
	"DRAAdminAccess":               34,
	"DRAPrioritizedList":           34,
	"DRAResourceClaimDeviceStatus": 33,
	"DRAPartitionableDevices":      36,
	"DRADeviceTaints":              36,
	"DRADeviceTaintRules":          37,
	"DRAConsumableCapacity":        36,
	"DRADeviceBindingConditions":   36,
	"DRAFractionalCapacityRange":   37,
	"DRAListTypeAttributes":        0,
	"DRADerivedAttributes":         0,
	"DRADeviceCompatibilityGroups": 0,
	"DRAOptionalNodeOperations":    0,
}

func (s *scenario) enabled(gate string) bool {
	if value, found := s.Gates[gate]; found {
		return value
	}
	minor := 37
	if _, text, found := strings.Cut(s.Version, "."); found {
		if number, err := strconv.Atoi(strings.SplitN(text, ".", 2)[0]); err == nil {
			minor = number
		}
	}
	return since[gate] != 0 && since[gate] <= minor
}

func (s *scenario) unknownGate() error {
	for gate := range s.Gates {
		if _, found := since[gate]; !found {
			return fmt.Errorf("gate %s is not known to the allocator", gate)
		}
	}
	return nil
}

func (s *scenario) features() structured.Features {
	return structured.Features{
		AdminAccess:             s.enabled("DRAAdminAccess"),
		CompatibilityGroups:     s.enabled("DRADeviceCompatibilityGroups"),
		ConsumableCapacity:      s.enabled("DRAConsumableCapacity"),
		DerivedAttributes:       s.enabled("DRADerivedAttributes"),
		DeviceBindingAndStatus:  s.enabled("DRADeviceBindingConditions") && s.enabled("DRAResourceClaimDeviceStatus"),
		DeviceTaints:            s.enabled("DRADeviceTaints"),
		FractionalCapacityRange: s.enabled("DRAFractionalCapacityRange"),
		ListTypeAttributes:      s.enabled("DRAListTypeAttributes"),
		OptionalNodeOperations:  s.enabled("DRAOptionalNodeOperations"),
		PartitionableDevices:    s.enabled("DRAPartitionableDevices"),
		PrioritizedList:         s.enabled("DRAPrioritizedList"),
	}
}

// tainted appends the taints of the rules to the devices they select. The scheduler's tracker does
// this behind informers; without them it is these few lines.
func tainted(all []*resourceapi.ResourceSlice, rules []*resourceapi.DeviceTaintRule, enabled bool) []*resourceapi.ResourceSlice {
	if !enabled || len(rules) == 0 {
		return all
	}
	for _, slice := range all {
		for _, rule := range rules {
			selector := rule.Spec.DeviceSelector
			if selector == nil || differs(selector.Driver, slice.Spec.Driver) || differs(selector.Pool, slice.Spec.Pool.Name) {
				continue
			}
			for i := range slice.Spec.Devices {
				device := &slice.Spec.Devices[i]
				if !differs(selector.Device, device.Name) {
					device.Taints = append(slices.Clone(device.Taints), rule.Spec.Taint)
				}
			}
		}
	}
	return all
}

func differs(wanted *string, is string) bool {
	return wanted != nil && *wanted != is
}

// classes is the lister that the allocator asks.
type classes []*resourceapi.DeviceClass

func (c classes) List() ([]*resourceapi.DeviceClass, error) { return c, nil }

func (c classes) Get(name string) (*resourceapi.DeviceClass, error) {
	for _, class := range c {
		if class.Name == name {
			return class, nil
		}
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Group: "resource.k8s.io", Resource: "deviceclasses"}, name)
}
