package plugin

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"drawbridge.dev/bridge/allocatortest"
	"drawbridge.dev/bridge/protocol"
)

// conformanceCase is what the plugin plays of a file in protocol/cases.
type conformanceCase struct {
	Plays   []string `json:"plays"`
	Request struct {
		Path string          `json:"path"`
		Body json.RawMessage `json:"body"`
	} `json:"request"`
	Reply struct {
		Status  int              `json:"status"`
		Version string           `json:"version"`
		Body    json.RawMessage  `json:"body"`
		Lines   []protocol.Event `json:"lines"`
	} `json:"reply"`
	Plugin struct {
		Call  string   `json:"call"`
		Code  string   `json:"code"`
		Nodes []string `json:"nodes"`
	} `json:"plugin"`
}

func TestThePluginConformsToTheProtocol(t *testing.T) {
	files, err := filepath.Glob("../protocol/cases/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var each conformanceCase
		if err := json.Unmarshal(text, &each); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if slices.Contains(each.Plays, "plugin") {
			t.Run(filepath.Base(file), func(t *testing.T) { playCase(t, &each) })
		}
	}
}

func playCase(t *testing.T, each *conformanceCase) {
	t.Helper()
	if each.Request.Path == "/v1/preempt" {
		playPreempt(t, each)
		return
	}
	s := newStage(t)
	s.server.Reply(each.Request.Path, allocatortest.Reply{
		Status: each.Reply.Status, Version: each.Reply.Version, Body: each.Reply.Body,
	})
	switch each.Request.Path {
	case "/v1/status":
		playStatus(t, s, each)
	case "/v1/events":
		playEvents(t, s, each)
	case "/v1/prefilter":
		playPreFilter(t, s, each)
	default:
		playPodCall(t, s, each)
	}
}

func playStatus(t *testing.T, s *stage, each *conformanceCase) {
	t.Helper()
	var want protocol.Status
	if err := json.Unmarshal(each.Reply.Body, &want); err != nil {
		t.Fatal(err)
	}
	var request protocol.StatusRequest
	if each.Request.Body == nil {
		each.Request.Body = json.RawMessage(`{"heldPods": []}`)
	}
	if err := json.Unmarshal(each.Request.Body, &request); err != nil {
		t.Fatal(err)
	}
	for _, uid := range request.HeldPods {
		s.held.add(types.UID(uid))
	}
	problem := (&watch{plugin: s.Plugin}).askStatus(t.Context())
	if (problem == nil) != (want.Ready && want.Leading) {
		t.Errorf("got %v", problem)
	}
	checkSent(t, s.server.Take()[0], each)
}

func playEvents(t *testing.T, s *stage, each *conformanceCase) {
	t.Helper()
	s.server.Reply("/v1/events", allocatortest.Reply{Version: each.Reply.Version, Lines: each.Reply.Lines})
	var got []protocol.Event
	_ = s.allocator.client.Events(t.Context(), func(event protocol.Event) { got = append(got, event) })
	if !reflect.DeepEqual(got, each.Reply.Lines) {
		t.Errorf("got %v, want %v", got, each.Reply.Lines)
	}
}

func playPreFilter(t *testing.T, s *stage, each *conformanceCase) {
	t.Helper()
	var request protocol.PreFilterRequest
	if err := json.Unmarshal(each.Request.Body, &request); err != nil {
		t.Fatal(err)
	}
	s.args.MaxNodes = request.MaxNodes
	pod := podOf(&request)
	for _, claim := range request.Claims {
		s.cluster.existing[claim.Namespace+"/"+claim.Name] = claim
	}
	names, status := s.preFilter(t, pod)
	checkOutcome(t, status, each)
	if each.Plugin.Nodes != nil {
		checkTexts(t, names, slices.Sorted(slices.Values(each.Plugin.Nodes))...)
	}
	// A pod whose claims cannot be used does not reach the allocator.
	for _, sent := range s.server.Take() {
		checkSent(t, sent, each)
	}
}

func podOf(request *protocol.PreFilterRequest) *v1.Pod {
	pod := podWith()
	pod.Namespace, pod.Name, pod.UID = request.Pod.Namespace, request.Pod.Name, types.UID(request.Pod.UID)
	pod.Spec.NodeSelector, pod.Spec.Tolerations = request.Pod.NodeSelector, request.Pod.Tolerations
	if request.Pod.NodeAffinity != nil {
		pod.Spec.Affinity = &v1.Affinity{NodeAffinity: request.Pod.NodeAffinity}
	}
	if request.Pod.Priority != 0 {
		pod.Spec.Priority = &request.Pod.Priority
	}
	for _, claim := range request.Claims {
		pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims,
			v1.PodResourceClaim{Name: claim.Name, ResourceClaimName: &claim.Name})
	}
	return pod
}

func playPodCall(t *testing.T, s *stage, each *conformanceCase) {
	t.Helper()
	var target protocol.PodOnNode
	if err := json.Unmarshal(each.Request.Body, &target); err != nil {
		t.Fatal(err)
	}
	pod := podWith("gpus")
	pod.UID = types.UID(target.PodUID)
	s.state.Write(stateKey, &podState{scores: map[string]int64{}, complete: true, allocated: true})
	var status *fwk.Status
	switch each.Plugin.Call {
	case "Reserve":
		status = s.Reserve(t.Context(), s.state, pod, target.Node)
	case "Unreserve":
		s.Unreserve(t.Context(), s.state, pod, target.Node)
	case "Bind":
		status = s.Bind(t.Context(), s.state, pod, target.Node)
	case "PostFilter":
		_, status = s.PostFilter(t.Context(), s.state, pod, nil)
	default:
		t.Fatalf("the case has the unknown call %q", each.Plugin.Call)
	}
	checkOutcome(t, status, each)
	sent := s.server.Take()
	if len(sent) != 1 {
		t.Fatalf("sent %d requests", len(sent))
	}
	checkSent(t, sent[0], each)
}

// playPreempt runs a scheduling cycle with the nodes and pods of the request.
func playPreempt(t *testing.T, each *conformanceCase) {
	t.Helper()
	var request protocol.PreemptRequest
	if err := json.Unmarshal(each.Request.Body, &request); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, node := range request.Nodes {
		names = append(names, node.Node)
	}
	a := newPreemptionCluster(t, names...)
	for _, node := range request.Nodes {
		for _, victim := range node.Pods {
			pod := a.run(victim.UID, node.Node, victim.Priority, "0", "gpu-"+victim.UID)
			if err := pod.Status.StartTime.UnmarshalQueryParameter(victim.StartTime); err != nil {
				t.Fatal(err)
			}
			if victim.Violates {
				a.protect(victim.UID, 0, victim.UID)
			}
		}
	}
	a.answer(protocol.PreemptReply{})
	a.server.Reply("/v1/preempt", allocatortest.Reply{Status: each.Reply.Status, Version: each.Reply.Version, Body: each.Reply.Body})
	_, status := a.schedule(t)
	checkOutcome(t, status, each)
	var reply protocol.PreemptReply
	if err := json.Unmarshal(each.Reply.Body, &reply); err != nil {
		t.Fatal(err)
	}
	checkTexts(t, a.evicted(t), reply.Victims...)
	sent := a.server.Take()
	checkSent(t, sent[len(sent)-1], each)
}

func checkOutcome(t *testing.T, status *fwk.Status, each *conformanceCase) {
	t.Helper()
	if each.Plugin.Code != "" && status.Code().String() != each.Plugin.Code {
		t.Errorf("got %s (%s), want %s", status.Code(), status.Message(), each.Plugin.Code)
	}
}

// checkSent checks that the request has what the case has; null is the same as nothing.
func checkSent(t *testing.T, sent allocatortest.Request, each *conformanceCase) {
	t.Helper()
	if sent.Path != each.Request.Path || sent.Version != protocol.Version {
		t.Errorf("sent %s with version %q", sent.Path, sent.Version)
	}
	var got, want any
	for text, into := range map[*json.RawMessage]*any{&sent.Body: &got, &each.Request.Body: &want} {
		if err := json.Unmarshal(*text, into); err != nil {
			t.Fatal(err)
		}
	}
	if !contains(got, want) {
		t.Errorf("sent %s, want %s", sent.Body, each.Request.Body)
	}
}

func contains(got, want any) bool {
	switch want := want.(type) {
	case nil:
		return got == nil
	case map[string]any:
		object, ok := got.(map[string]any)
		for key, value := range want {
			ok = ok && contains(object[key], value)
		}
		return ok
	case []any:
		list, ok := got.([]any)
		return ok && slices.EqualFunc(list, want, contains)
	default:
		return got == want
	}
}
