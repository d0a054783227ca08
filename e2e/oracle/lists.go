//go:build listattributes

package main

import dracel "k8s.io/dynamic-resource-allocation/cel"

func features(lists bool) dracel.Features {
	return dracel.Features{EnableConsumableCapacity: true, EnableListTypeAttributes: lists}
}
