package dra

import (
	"testing"

	_ "k8s.io/kubernetes/test/e2e/dra"
	"k8s.io/kubernetes/test/e2e/framework"
)

func TestDRA(t *testing.T) { _ = framework.TestContext }
