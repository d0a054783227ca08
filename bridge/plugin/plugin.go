// Package plugin is the scheduler plugin Drawbridge: it asks the allocator beside the scheduler.
//
// The plugin decides nothing about devices, keeps no state of devices and writes no claims. Pods
// without ResourceClaims never reach the allocator.
package plugin

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"drawbridge.dev/bridge/framework"
	"drawbridge.dev/bridge/protocol"
)

// Name is the name of the plugin in a KubeSchedulerConfiguration.
const Name = "Drawbridge"

var (
	_ framework.PreEnqueuePlugin  = &Plugin{}
	_ framework.EnqueueExtensions = &Plugin{}
	_ framework.PreFilterPlugin   = &Plugin{}
	_ framework.FilterPlugin      = &Plugin{}
	_ framework.PostFilterPlugin  = &Plugin{}
	_ framework.PreScorePlugin    = &Plugin{}
	_ framework.ScorePlugin       = &Plugin{}
	_ framework.ReservePlugin     = &Plugin{}
	_ framework.BindPlugin        = &Plugin{}
)

// cluster is what the plugin reads of the scheduler's caches, and how it wakes pods.
type cluster interface {
	claim(namespace, name string) (*resourceapi.ResourceClaim, error)
	classes() ([]*resourceapi.DeviceClass, error)
	// waiting returns the pods of this profile that have claims and no node.
	waiting() []*v1.Pod
	// waitingWith returns those of them that have one of the UIDs.
	waitingWith(uids []string) []*v1.Pod
	activate(pods []*v1.Pod)
	// hasNode returns whether the scheduler had heard of a node when the scheduling cycle began.
	hasNode(name string) bool
	// members returns the pods of a group.
	members(group string) []*v1.Pod
}

// Plugin asks the allocator at each extension point that concerns devices.
type Plugin struct {
	args       Args
	cluster    cluster
	allocator  *allocator
	preemption *nodePreemption
	groups     *framework.Groups
	// everyNode holds the pods for which a short list of nodes was not enough.
	everyNode *podSet
	// unheard holds the pods that fit on a node of which the scheduler had not heard.
	unheard *podSet
	// unanswered holds the pods that were refused because the allocator did not answer.
	unanswered *podSet
	// held holds the pods between Reserve and Bind, whose reservations are renewed.
	held *podSet
	// leads is true as soon as this process schedules.
	leads atomic.Bool
}

// New is the factory of the plugin.
func New(ctx context.Context, configuration runtime.Object, handle framework.Handle) (framework.Plugin, error) {
	args, err := decodeArgs(configuration)
	if err != nil {
		return nil, fmt.Errorf("pluginConfig of %s: %w", Name, err)
	}
	caches, err := newCaches(ctx, handle)
	if err != nil {
		return nil, err
	}
	p := newPlugin(args, caches, protocol.NewClient(args.Socket), clock.RealClock{})
	p.preemption = newNodePreemption(p, handle)
	p.groups = framework.NewGroups(handle)
	watch := &watch{plugin: p, clock: clock.RealClock{}, end: endProcess}
	go watch.followEvents(ctx)
	go watch.followStatus(ctx)
	return p, nil
}

func newPlugin(args Args, cluster cluster, client *protocol.Client, clock clock.PassiveClock) *Plugin {
	return &Plugin{
		args:       args,
		cluster:    cluster,
		allocator:  &allocator{client: client, clock: clock},
		everyNode:  newPodSet(),
		unheard:    newPodSet(),
		unanswered: newPodSet(),
		held:       newPodSet(),
	}
}

// Name returns the name of the plugin.
func (p *Plugin) Name() string {
	return Name
}

// failure returns the status of a pod for which a call failed.
func (p *Plugin) failure(ctx context.Context, pod *v1.Pod, err error) *fwk.Status {
	var unavailable *unavailableError
	switch {
	case ctx.Err() != nil:
		return fwk.AsStatus(err)
	case errors.As(err, &unavailable):
		// Event and status streams activate the pod when the allocator answers again.
		p.unanswered.add(pod.UID)
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, err.Error())
	case protocol.IsPermanent(err):
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, err.Error())
	default:
		// kube-scheduler logs it with the pod.
		return fwk.AsStatus(err)
	}
}
