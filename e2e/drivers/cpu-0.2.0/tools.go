//go:build tools

// Package cpu names the driver for processors, so that go.sum covers them.
package cpu

import (
	_ "github.com/kubernetes-sigs/dra-driver-cpu/cmd/dracpu"
)
