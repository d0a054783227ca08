package plugin

import "time"

const (
	// A call in the scheduling cycle delays every other pod.
	callTimeout = 300 * time.Millisecond
	// Preemption is rare, and the allocator searches many nodes.
	preemptTimeout = time.Second
	// A group is asked about once for all of its members.
	groupTimeout = time.Second
	// The time limit doubles this often while answers are late.
	maxDoublings = 3
	// Binding waits for writes and for binding conditions, in a goroutine of its own.
	bindTimeout    = 120 * time.Second
	statusInterval = time.Second
	// No call is tried for this long after the allocator did not answer, unless it answers the
	// status meanwhile. A status call that gets no answer renews the pause before it ends, so that
	// only one call waits for an allocator that hangs.
	pause          = 3 * statusInterval
	reconnectDelay = 100 * time.Millisecond

	// The scheduler gets this time to release its lease.
	releaseTimeout = 10 * time.Second

	defaultMaxNodes      = 20
	defaultNotReadyLimit = 30 * time.Second

	// How many nodes are tried together for preemption, as many as DefaultPreemption tries at least.
	// The allocator examines them without an interruption.
	nodesPerRequest = 100

	// How many members of a group are asked about together, and how many if so many must run: one
	// request holds no more.
	maxMembers       = 1024
	maxNeededMembers = 10000

	maxRememberedPods   = 10000
	maxRememberedGroups = 1000
)
