// Command quorum-scheduler is drawbridge-scheduler with the Permit plugin Quorum, for tests.
//
// It shows gangs where kube-scheduler has none of its own.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"

	"drawbridge.dev/bridge/plugin"
)

func main() {
	os.Exit(cli.Run(app.NewSchedulerCommand(app.WithPlugin(plugin.Name, plugin.New), app.WithPlugin(quorumName, newQuorum))))
}
