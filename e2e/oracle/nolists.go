//go:build !listattributes

package main

import dracel "k8s.io/dynamic-resource-allocation/cel"

// Before 1.36 there is no such gate.
func features(bool) dracel.Features {
	return dracel.Features{EnableConsumableCapacity: true}
}
