package plugin

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// podSet remembers pods by UID. It is bounded: a full set starts anew, which costs its pods a retry.
type podSet struct {
	mu   sync.Mutex
	uids map[types.UID]struct{}
	// forgot is true if the set has started anew since it was taken.
	forgot bool
}

func newPodSet() *podSet {
	return &podSet{uids: map[types.UID]struct{}{}}
}

func (s *podSet) add(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.uids) >= maxRememberedPods {
		clear(s.uids)
		s.forgot = true
	}
	s.uids[uid] = struct{}{}
}

func (s *podSet) has(uid types.UID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, found := s.uids[uid]
	return found
}

func (s *podSet) remove(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.uids, uid)
}

// take returns all pods and forgets them. They are not complete if the set has started anew.
func (s *podSet) take() (uids []string, complete bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	uids, complete = s.texts(), !s.forgot
	clear(s.uids)
	s.forgot = false
	return uids, complete
}

// list returns all pods.
func (s *podSet) list() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.texts()
}

func (s *podSet) texts() []string {
	texts := make([]string, 0, len(s.uids))
	for uid := range s.uids {
		texts = append(texts, string(uid))
	}
	return texts
}
