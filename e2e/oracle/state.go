//go:build allocator

package main

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"
)

// gather sums up what allocated claims hold, with the scheduler plugin's distinctions: results with
// admin access hold nothing; a share is only a share while the gate is on.
func gather(claims []*resourceapi.ResourceClaim, shares bool) structured.AllocatedState {
	state := structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
	for _, claim := range claims {
		if claim.Status.Allocation == nil {
			continue
		}
		for i := range claim.Status.Allocation.Devices.Results {
			hold(&state, &claim.Status.Allocation.Devices.Results[i], shares)
		}
	}
	return state
}

func hold(state *structured.AllocatedState, result *resourceapi.DeviceRequestAllocationResult, shares bool) {
	id := structured.MakeDeviceID(result.Driver, result.Pool, result.Device)
	switch {
	case ptr.Deref(result.AdminAccess, false):
	case shares && result.ShareID != nil:
		state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, result.ShareID))
		if result.ConsumedCapacity != nil {
			state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, result.ConsumedCapacity))
		}
	default:
		state.AllocatedDevices.Insert(id)
	}
}
