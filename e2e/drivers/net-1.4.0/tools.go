//go:build tools

// Package net names the driver for network interfaces, so that go.sum covers them.
package net

import (
	_ "sigs.k8s.io/dranet/cmd/dranet"
)
