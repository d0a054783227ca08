package main

import (
	"cmp"
	"context"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"drawbridge.dev/bridge/framework"
)

const (
	quorumName = "Quorum"
	// The labels of the plugin Coscheduling, and one that only this plugin knows.
	groupLabel   = "scheduling.x-k8s.io/pod-group"
	otherLabel   = "rig.drawbridge.dev/group"
	minimumLabel = "pod-group.scheduling.sigs.k8s.io/min-available"
	permitWait   = 90 * time.Second
)

// quorum lets the members of a group wait for each other behind Reserve. If one gives up, the others
// that wait do so as well.
type quorum struct {
	handle framework.Handle
}

var (
	_ framework.PermitPlugin  = &quorum{}
	_ framework.ReservePlugin = &quorum{}
)

func newQuorum(_ context.Context, _ runtime.Object, handle framework.Handle) (framework.Plugin, error) {
	return &quorum{handle: handle}, nil
}

func (*quorum) Name() string {
	return quorumName
}

// Permit waits until enough members wait or have a node.
func (q *quorum) Permit(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) (*fwk.Status, time.Duration) {
	minimum, err := strconv.Atoi(pod.Labels[minimumLabel])
	if groupOf(pod) == "" || err != nil {
		return nil, 0
	}
	nodes, err := q.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return fwk.AsStatus(err), 0
	}
	members := map[string]struct{}{string(pod.UID): {}}
	for _, waiting := range q.waiting(pod) {
		members[string(waiting.GetPod().UID)] = struct{}{}
	}
	for _, node := range nodes {
		for _, other := range node.GetPods() {
			if isSameGroup(other.GetPod(), pod) {
				members[string(other.GetPod().UID)] = struct{}{}
			}
		}
	}
	if len(members) < minimum {
		return fwk.NewStatus(fwk.Wait, "too few members of the group are reserved"), permitWait
	}
	for _, waiting := range q.waiting(pod) {
		waiting.Allow(quorumName)
	}
	return nil, 0
}

// Reserve does nothing.
func (*quorum) Reserve(context.Context, fwk.CycleState, *v1.Pod, string) *fwk.Status {
	return nil
}

// Unreserve rejects the members that wait.
func (q *quorum) Unreserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) {
	for _, waiting := range q.waiting(pod) {
		waiting.Reject(quorumName, "another member of the group gives up")
	}
}

// waiting returns the members of the group of a pod that wait at Permit.
func (q *quorum) waiting(pod *v1.Pod) []framework.WaitingPod {
	var found []framework.WaitingPod
	q.handle.IterateOverWaitingPods(func(waiting framework.WaitingPod) {
		if isSameGroup(waiting.GetPod(), pod) {
			found = append(found, waiting)
		}
	})
	return found
}

func isSameGroup(one, other *v1.Pod) bool {
	return groupOf(one) != "" && groupOf(one) == groupOf(other) && one.Namespace == other.Namespace
}

func groupOf(pod *v1.Pod) string {
	return cmp.Or(pod.Labels[groupLabel], pod.Labels[otherLabel])
}
