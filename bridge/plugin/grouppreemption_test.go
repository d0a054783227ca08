package plugin

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"drawbridge.dev/bridge/allocatortest"
	"drawbridge.dev/bridge/protocol"
)

// newGroupCluster returns nodes with a pod of a lower priority each, and a member of a group that fits nowhere.
func newGroupCluster(t *testing.T, nodes int, reply protocol.PreemptReply) *preemptionCluster {
	t.Helper()
	var names []string
	for number := range nodes {
		names = append(names, fmt.Sprintf("n%03d", number))
	}
	a := newPreemptionCluster(t, names...)
	for _, name := range names {
		a.run("on-"+name, name, lowPriority, "100m", "gpu-"+name)
	}
	a.pod.Labels = map[string]string{coschedulingLabel: "gang", minAvailableLabel: "2"}
	a.answer(reply)
	fits := protocol.PreFilterReply{Complete: true, GroupPreemptible: true, Message: "0 of 2 members of the group fit"}
	a.server.Reply("/v1/prefilter", allocatortest.Reply{Body: fits})
	return a
}

func TestAGroupEvictsOnAnyNodesThatItsMembersCanUse(t *testing.T) {
	a := newGroupCluster(t, 6*nodesPerRequest, protocol.PreemptReply{Evictions: []protocol.Eviction{
		{Node: "n598", Victims: []string{"on-n598"}}, {Node: "n599", Victims: []string{"on-n599"}},
	}})
	for index, node := range a.nodes {
		node.Spec.Unschedulable = index < 590
	}
	_, status := a.schedule(t)
	checkTexts(t, []string{status.Message()}, "preemption: 2 pods are evicted for the group")
	checkTexts(t, a.evicted(t), "on-n598", "on-n599")
	if asked := a.asked(t); len(asked) != 10 {
		t.Errorf("asked for %d nodes", len(asked))
	}
}

func TestAGroupThatFitsOnNoNodeSaysSo(t *testing.T) {
	a := newGroupCluster(t, 1, protocol.PreemptReply{})
	a.nodes[0].Spec.Unschedulable = true
	_, status := a.schedule(t)
	checkTexts(t, []string{status.Message()}, "preemption: no node fits the pod, even without the pods with a lower priority")
	checkTexts(t, a.paths(), "/v1/prefilter")
}

func TestAGroupWithoutPodsOfALowerPrioritySaysSo(t *testing.T) {
	a := newGroupCluster(t, 1, protocol.PreemptReply{})
	a.pods = nil
	_, status := a.schedule(t)
	checkTexts(t, []string{status.Message()}, "preemption: no pod with a lower priority has devices")
}

// newLargeGroupCluster returns a cluster of three parts, of which one request can name two.
func newLargeGroupCluster(t *testing.T, reply protocol.PreemptReply) *preemptionCluster {
	t.Helper()
	a := newGroupCluster(t, 3*nodesPerRequest, reply)
	for _, pod := range a.pods {
		pod.UID = types.UID(pod.Name + strings.Repeat("x", protocol.MaxMessageBytes/5/nodesPerRequest))
	}
	return a
}

// More nodes than one request can name are asked about in turns, which a search that continues does not end.
func TestAGroupIsAskedAboutAsManyNodesAsOneRequestNames(t *testing.T) {
	for name, each := range map[string]struct {
		reply protocol.PreemptReply
		nodes int
	}{
		"refused":   {protocol.PreemptReply{Message: "not enough"}, 3 * nodesPerRequest},
		"continues": {protocol.PreemptReply{Unfinished: true, Message: "the search continues"}, 2 * nodesPerRequest},
		"waits":     {protocol.PreemptReply{Waiting: true, Message: "waits for 1 device"}, 2 * nodesPerRequest},
	} {
		t.Run(name, func(t *testing.T) {
			a := newLargeGroupCluster(t, each.reply)
			seen := map[string][]string{}
			for range 2 {
				_, status := a.schedule(t)
				checkTexts(t, []string{status.Message()}, "preemption: "+each.reply.Message)
				asked := a.asked(t)
				if len(asked) != 2*nodesPerRequest {
					t.Errorf("asked for %d nodes", len(asked))
				}
				for node, pods := range asked {
					seen[node] = pods
				}
			}
			if len(seen) != each.nodes {
				t.Errorf("asked for %d nodes", len(seen))
			}
		})
	}
}

func TestTheRefusalOfAGroupMovesNoNodesOfAnother(t *testing.T) {
	a := newLargeGroupCluster(t, protocol.PreemptReply{Unfinished: true, Message: "the search continues"})
	member, other := a.pod, a.pod.DeepCopy()
	other.Name, other.UID = "other", "other"
	other.Labels = map[string]string{coschedulingLabel: "other", minAvailableLabel: "2"}
	a.schedule(t)
	before := a.asked(t)
	a.pod = other
	a.server.Reply("/v1/preempt", allocatortest.Reply{Body: protocol.PreemptReply{Message: "not enough"}})
	a.schedule(t)
	a.asked(t)
	a.pod = member
	a.schedule(t)
	if after := a.asked(t); !maps.EqualFunc(before, after, slices.Equal) {
		t.Errorf("asked for %d other nodes", len(after))
	}
}
