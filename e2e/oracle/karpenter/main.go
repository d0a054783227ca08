// The program asks Karpenter's allocator whether a new node of one instance type satisfies claims.
//
// Each line of the input is a scenario as in e2e/oracle: the slices of its only node are what the
// cloud provider says of the instance type. The answer to each line is a verdict.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"unique"

	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/scheduling"
	"sigs.k8s.io/karpenter/pkg/scheduling/dynamicresources"
)

const name = "template"

type scenario struct {
	Slices  []*resourcev1.ResourceSlice `json:"slices"`
	Classes []*resourcev1.DeviceClass   `json:"classes"`
	Claims  []*resourcev1.ResourceClaim `json:"claims"`
}

type verdict struct {
	Verdict string `json:"verdict"`
	Message string `json:"message,omitempty"`
}

// classes answers as an API server that has DeviceClasses only.
type classes struct {
	client.Client
	all []*resourcev1.DeviceClass
}

func (c classes) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	class, ok := into.(*resourcev1.DeviceClass)
	for _, served := range c.all {
		if ok && served.Name == key.Name {
			served.DeepCopyInto(class)
			return nil
		}
	}
	return apierrors.NewNotFound(schema.GroupResource{Resource: "deviceclasses"}, key.Name)
}

// newNode is a node that Karpenter would create, with the devices of its instance type.
type newNode struct {
	slices []dynamicresources.ResourceSlice
}

func (newNode) ID() dynamicresources.NodeClaimID        { return unique.Make(name) }
func (newNode) NodeName() string                        { return "" }
func (newNode) NodePoolID() dynamicresources.NodePoolID { return unique.Make(name) }
func (newNode) Requirements() scheduling.Requirements   { return scheduling.NewRequirements() }
func (newNode) InstanceTypes() []dynamicresources.InstanceTypeID {
	return []dynamicresources.InstanceTypeID{unique.Make(name)}
}

func (n newNode) ResourceSlices() map[dynamicresources.InstanceTypeID][]dynamicresources.ResourceSlice {
	return map[dynamicresources.InstanceTypeID][]dynamicresources.ResourceSlice{unique.Make(name): n.slices}
}

// template turns a published slice into what a cloud provider says before there is a node.
func template(slice *resourcev1.ResourceSlice) dynamicresources.ResourceSlice {
	made := &cloudprovider.ResourceSliceTemplate{
		Driver:         unique.Make(slice.Spec.Driver),
		Pool:           cloudprovider.ResourcePool{Name: unique.Make(slice.Spec.Pool.Name)},
		SharedCounters: slice.Spec.SharedCounters,
	}
	for _, device := range slice.Spec.Devices {
		shared := device.AllowMultipleAllocations
		made.Devices = append(made.Devices, cloudprovider.Device{
			Name:                     unique.Make(device.Name),
			Attributes:               device.Attributes,
			Capacity:                 device.Capacity,
			AllowMultipleAllocations: shared != nil && *shared,
			ConsumesCounters:         device.ConsumesCounters,
		})
	}
	return dynamicresources.NewTemplateSlice(made)
}

func ask(line []byte) (out verdict) {
	defer func() {
		if broken := recover(); broken != nil {
			out = verdict{"panic", fmt.Sprint(broken)}
		}
	}()
	var s scenario
	if err := json.Unmarshal(line, &s); err != nil {
		return verdict{"error", err.Error()}
	}
	node := newNode{}
	for _, slice := range s.Slices {
		node.slices = append(node.slices, template(slice))
	}
	allocator := dynamicresources.NewAllocator(
		nil, dynamicresources.AllocatedDeviceState{}, nil, classes{all: s.Classes}, nil)
	result, err := allocator.Allocate(context.Background(), node, s.Claims)
	switch {
	case err != nil:
		return verdict{"none", err.Error()}
	case !slices.Contains(result.InstanceTypes, unique.Make(name)):
		return verdict{"none", "no instance type is left"}
	}
	return verdict{Verdict: "allocated"}
}

func main() {
	lines := bufio.NewReaderSize(os.Stdin, 1<<20)
	encoder := json.NewEncoder(os.Stdout)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		if err := encoder.Encode(ask(line)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}
