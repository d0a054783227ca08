//go:build tools

// Package kueue names the manager of Kueue, so that go.sum covers it.
package kueue

import _ "sigs.k8s.io/kueue/cmd/kueue"
