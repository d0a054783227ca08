package plugin

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"drawbridge.dev/bridge/allocatortest"
	"drawbridge.dev/bridge/protocol"
)

func podWithLabels(labels map[string]string) *v1.Pod {
	pod := podWith("a")
	pod.Labels = labels
	return pod
}

func TestTheGroupOfAPod(t *testing.T) {
	for name, each := range map[string]struct {
		labels map[string]string
		group  string
		count  int
	}{
		"a pod alone":              {nil, "", 0},
		"coscheduling":             {map[string]string{coschedulingLabel: "g"}, "default/scheduling.x-k8s.io/pod-group=g", 0},
		"a group without object":   {map[string]string{podGroupLabel: "g", podGroupMin: "8"}, "default/pod-group.scheduling.sigs.k8s.io/name=g", 8},
		"LeaderWorkerSet":          {map[string]string{leaderWorkerLabel: "g"}, "default/leaderworkerset.sigs.k8s.io/group-key=g", 0},
		"two labels":               {map[string]string{leaderWorkerLabel: "g", coschedulingLabel: "h"}, "default/scheduling.x-k8s.io/pod-group=h", 0},
		"a size that is no number": {map[string]string{podGroupLabel: "g", podGroupMin: "all"}, "default/pod-group.scheduling.sigs.k8s.io/name=g", 0},
		"a negative size":          {map[string]string{podGroupLabel: "g", podGroupMin: "-1"}, "default/pod-group.scheduling.sigs.k8s.io/name=g", 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			pod := podWithLabels(each.labels)
			count, err := s.minCount(pod)
			if group := groupOf(pod); group != each.group || count != each.count || err != nil {
				t.Errorf("got %s, %d, %v", group, count, err)
			}
		})
	}
}

func TestGroupsOfTwoNamespacesAreNotOne(t *testing.T) {
	pod, other := podWithLabels(map[string]string{coschedulingLabel: "g"}), podWithLabels(map[string]string{coschedulingLabel: "g"})
	other.Namespace = "other"
	if groupOf(pod) == groupOf(other) {
		t.Errorf("both are in %s", groupOf(pod))
	}
}

func TestAMemberOfAGroupEvictsNobodyForItselfAlone(t *testing.T) {
	s := newStage(t, claim("a", ""))
	reply := protocol.PreFilterReply{Complete: true, Preemptible: true, Message: "no node fits"}
	s.server.Reply("/v1/prefilter", allocatortest.Reply{Body: reply})
	pod := podWithLabels(map[string]string{coschedulingLabel: "g"})
	_, status := s.preFilter(t, pod)
	checkCode(t, status, fwk.Unschedulable)
	_, status = s.PostFilter(t.Context(), s.state, pod, nil)
	checkCode(t, status, fwk.UnschedulableAndUnresolvable)
	checkTexts(t, s.paths(), "/v1/prefilter")
}
