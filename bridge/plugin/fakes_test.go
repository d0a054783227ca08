package plugin

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerframework "k8s.io/kubernetes/pkg/scheduler/framework"
	testingclock "k8s.io/utils/clock/testing"

	"drawbridge.dev/bridge/allocatortest"
	"drawbridge.dev/bridge/protocol"
)

type fakeCluster struct {
	existing map[string]*resourceapi.ResourceClaim
	mapping  []*resourceapi.DeviceClass
	pods     []*v1.Pod
	unheard  string

	mu        sync.Mutex
	activated []string
}

func (c *fakeCluster) claim(namespace, name string) (*resourceapi.ResourceClaim, error) {
	if claim, found := c.existing[namespace+"/"+name]; found {
		return claim, nil
	}
	return nil, errors.New("not found")
}

func (c *fakeCluster) classes() ([]*resourceapi.DeviceClass, error) {
	return c.mapping, nil
}

func (c *fakeCluster) waiting() []*v1.Pod {
	return c.pods
}

func (c *fakeCluster) waitingWith(uids []string) []*v1.Pod {
	return slices.DeleteFunc(slices.Clone(c.pods), func(pod *v1.Pod) bool {
		return !slices.Contains(uids, string(pod.UID))
	})
}

func (c *fakeCluster) members(group string) []*v1.Pod {
	return slices.DeleteFunc(slices.Clone(c.pods), func(pod *v1.Pod) bool { return groupOf(pod) != group })
}

func (c *fakeCluster) hasNode(name string) bool {
	return name != c.unheard
}

func (c *fakeCluster) activate(pods []*v1.Pod) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, pod := range pods {
		c.activated = append(c.activated, string(pod.UID))
	}
}

// taken returns the pods that were activated since the last call.
func (c *fakeCluster) taken() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	taken := c.activated
	c.activated = nil
	slices.Sort(taken)
	return taken
}

// stage is a plugin with a cluster, an allocator and a clock of the test.
type stage struct {
	*Plugin
	cluster *fakeCluster
	server  *allocatortest.Server
	clock   *testingclock.FakeClock
	state   fwk.CycleState
}

func newStage(t *testing.T, claims ...*resourceapi.ResourceClaim) *stage {
	t.Helper()
	cluster := &fakeCluster{existing: map[string]*resourceapi.ResourceClaim{}}
	for _, claim := range claims {
		cluster.existing[claim.Namespace+"/"+claim.Name] = claim
	}
	server := allocatortest.New(t)
	clock := testingclock.NewFakeClock(time.Unix(0, 0))
	args := Args{MaxNodes: defaultMaxNodes, NotReadyLimit: metav1.Duration{Duration: defaultNotReadyLimit}}
	return &stage{
		Plugin:  newPlugin(args, cluster, protocol.NewClient(server.Socket), clock),
		cluster: cluster,
		server:  server,
		clock:   clock,
		state:   schedulerframework.NewCycleState(),
	}
}

// fits has the allocator answer that the claims fit on nodes.
func (s *stage) fits(complete bool, nodes ...string) {
	reply := protocol.PreFilterReply{Complete: complete, Message: "no node fits"}
	for _, node := range nodes {
		reply.Fit = append(reply.Fit, protocol.NodeScore{Node: node, Score: 70})
	}
	s.server.Reply("/v1/prefilter", allocatortest.Reply{Body: reply})
}

// paths returns the calls since the last time.
func (s *stage) paths() []string {
	var paths []string
	for _, request := range s.server.Take() {
		paths = append(paths, request.Path)
	}
	return paths
}

func podWith(claims ...string) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pod-1", UID: "pod-1"}}
	for _, name := range claims {
		pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims,
			v1.PodResourceClaim{Name: name, ResourceClaimName: &name})
	}
	return pod
}

func podFromTemplate(generated string) *v1.Pod {
	template := "template"
	pod := podWith()
	pod.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: &template}}
	if generated != "" {
		pod.Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: "gpu", ResourceClaimName: &generated}}
	}
	return pod
}

func claim(name string, owner types.UID) *resourceapi.ResourceClaim {
	claim := &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name)},
	}
	if owner != "" {
		controller := true
		claim.OwnerReferences = []metav1.OwnerReference{{Kind: "Pod", Name: "pod-1", UID: owner, Controller: &controller}}
	}
	return claim
}

func allocatedClaim(name string) *resourceapi.ResourceClaim {
	allocated := claim(name, "")
	allocated.Status.Allocation = &resourceapi.AllocationResult{}
	return allocated
}

func node(name string, allocatable v1.ResourceList) fwk.NodeInfo {
	info := schedulerframework.NewNodeInfo()
	info.SetNode(&v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Status:     v1.NodeStatus{Allocatable: allocatable},
	})
	return info
}

func checkCode(t *testing.T, status *fwk.Status, code fwk.Code) {
	t.Helper()
	if status.Code() != code {
		t.Errorf("got %s (%s), want %s", status.Code(), status.Message(), code)
	}
}

func checkTexts(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func contextWithCause(t *testing.T) (context.Context, context.CancelCauseFunc) {
	t.Helper()
	return context.WithCancelCause(t.Context())
}

func podUID(number int) types.UID {
	return types.UID(strconv.Itoa(number))
}
