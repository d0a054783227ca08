// Command drawbridge-scheduler is kube-scheduler with the plugin Drawbridge compiled in.
//
// Flags and configuration file are those of kube-scheduler.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // the log format json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // the metrics of the client
	_ "k8s.io/component-base/metrics/prometheus/version"  // the metric of the version
	"k8s.io/kubernetes/cmd/kube-scheduler/app"

	"drawbridge.dev/bridge/plugin"
)

func main() {
	os.Exit(cli.Run(app.NewSchedulerCommand(app.WithPlugin(plugin.Name, plugin.New))))
}
