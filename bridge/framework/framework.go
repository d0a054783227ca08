//go:build !kubernetes134

// Package framework names the plugin interfaces, which Kubernetes 1.35 moved to another module.
package framework

import (
	fwk "k8s.io/kube-scheduler/framework"
)

// The interfaces and types of plugins.
type (
	Handle              = fwk.Handle
	Plugin              = fwk.Plugin
	PreEnqueuePlugin    = fwk.PreEnqueuePlugin
	EnqueueExtensions   = fwk.EnqueueExtensions
	PreFilterPlugin     = fwk.PreFilterPlugin
	PreFilterExtensions = fwk.PreFilterExtensions
	PreFilterResult     = fwk.PreFilterResult
	FilterPlugin        = fwk.FilterPlugin
	PostFilterPlugin    = fwk.PostFilterPlugin
	PostFilterResult    = fwk.PostFilterResult
	NodeToStatusReader  = fwk.NodeToStatusReader
	PreScorePlugin      = fwk.PreScorePlugin
	ScorePlugin         = fwk.ScorePlugin
	ScoreExtensions     = fwk.ScoreExtensions
	ReservePlugin       = fwk.ReservePlugin
	PermitPlugin        = fwk.PermitPlugin
	WaitingPod          = fwk.WaitingPod
	BindPlugin          = fwk.BindPlugin
)

// MaxScore is the best score of a node.
const MaxScore = fwk.MaxNodeScore
