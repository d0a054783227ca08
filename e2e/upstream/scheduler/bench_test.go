// Package scheduler runs Kubernetes' benchmark scheduler_perf with the plugin Drawbridge.
//
// The benchmark starts etcd, API server and scheduler in this process. The allocator is a process of
// its own, as in a pod, and is started for each workload. Without the flag -drawbridge the workloads
// run with the plugins of Kubernetes alone.
package scheduler

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	_ "k8s.io/component-base/logs/json/register" // a log format of the benchmark's flags
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	perf "k8s.io/kubernetes/test/integration/scheduler_perf"
	"k8s.io/kubernetes/test/utils/ktesting"
	"sigs.k8s.io/yaml"

	"drawbridge.dev/bridge/plugin"
	"drawbridge.dev/bridge/protocol"
)

const (
	namespace = metav1.NamespaceDefault
	lease     = "drawbridge-scheduler"
	host      = "scheduler-perf"
	// How long the Lease lasts, and how often it is tried for, as in kube-scheduler.
	leaseDuration, renewDeadline, retryPeriod = 15 * time.Second, 10 * time.Second, 2 * time.Second
	startLimit                                = time.Minute
	// The allocator is stopped after the scheduler, which has no pods left.
	stopLimit = 10 * time.Second
)

var (
	workloads = flag.String("workloads", "performance-config.yaml", "the file of the workloads")
	topic     = flag.String("topic", "dra", "the topic, which selects the thresholds of the workloads")
	// What is needed to run with Drawbridge.
	drawbridge    = flag.String("drawbridge", "", "the command drawbridge")
	configuration = flag.String("configuration", "", "a file with the ConfigMap of its configuration")
	socket        = flag.String("socket", "", "the socket of the allocator; logs are beside it")
	kubeconfig    = flag.String("access", "", "where to write the access to the API server")
	beside        = flag.Bool("beside", false, "run Drawbridge beside a scheduler that does not ask it")
)

func TestMain(m *testing.M) {
	if err := perf.InitTests(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func BenchmarkPerfScheduling(b *testing.B) {
	// The allocator in Kubernetes that upstream's benchmark measures.
	structured.EnableAllocators("incubating")
	defer structured.EnableAllocators()
	if *drawbridge == "" {
		perf.RunBenchmarkPerfScheduling(b, *workloads, *topic, nil, perf.WithPrepareFn(measureParts))
		return
	}
	var plugins runtime.Registry
	if !*beside {
		plugins = runtime.Registry{plugin.Name: plugin.New}
	}
	perf.RunBenchmarkPerfScheduling(b, *workloads, *topic, plugins, perf.WithPrepareFn(install))
}

// install starts Drawbridge for the API server of a workload and returns when its allocator is ready.
func install(tCtx ktesting.TContext) error {
	if err := measureParts(tCtx); err != nil {
		return err
	}
	if err := createConfiguration(tCtx); err != nil {
		return err
	}
	if err := writeAccess(tCtx.RESTConfig(), *kubeconfig); err != nil {
		return err
	}
	if err := holdLease(tCtx, host+"_0"); err != nil {
		return err
	}
	// The controller publishes the facts and the configuration that the allocator starts with.
	if err := serve(tCtx, "controller", "--certificates=external"); err != nil {
		return err
	}
	if err := serve(tCtx, "allocator", "--socket="+*socket, "--host="+host); err != nil {
		return err
	}
	return waitReady(tCtx)
}

func createConfiguration(tCtx ktesting.TContext) error {
	text, err := os.ReadFile(*configuration)
	if err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	configMap := &v1.ConfigMap{}
	if err := yaml.UnmarshalStrict(text, configMap); err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	_, err = tCtx.Client().CoreV1().ConfigMaps(namespace).Create(tCtx, configMap, metav1.CreateOptions{})
	return err
}

// writeAccess writes a kubeconfig for the API server.
func writeAccess(access *rest.Config, path string) error {
	const name = "scheduler-perf"
	// The loopback client of the API server knows its certificate by another name than the address.
	cluster := &api.Cluster{
		Server:                   access.Host,
		TLSServerName:            access.ServerName,
		CertificateAuthorityData: access.CAData,
	}
	return clientcmd.WriteToFile(api.Config{
		Clusters:       map[string]*api.Cluster{name: cluster},
		AuthInfos:      map[string]*api.AuthInfo{name: {Token: access.BearerToken}},
		Contexts:       map[string]*api.Context{name: {Cluster: name, AuthInfo: name, Namespace: namespace}},
		CurrentContext: name,
	}, path)
}

// holdLease takes the Lease of the scheduler, which the benchmark starts without an election.
func holdLease(tCtx ktesting.TContext, identity string) error {
	lock, err := resourcelock.NewFromKubeconfig(
		resourcelock.LeasesResourceLock, namespace, lease, resourcelock.ResourceLockConfig{Identity: identity}, tCtx.RESTConfig(), renewDeadline)
	if err != nil {
		return fmt.Errorf("lease: %w", err)
	}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:          lock,
		LeaseDuration: leaseDuration,
		RenewDeadline: renewDeadline,
		RetryPeriod:   retryPeriod,
		Callbacks:     leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) {}, OnStoppedLeading: func() {}},
	})
	if err != nil {
		return fmt.Errorf("lease: %w", err)
	}
	ended := make(chan struct{})
	ctx := tCtx.WithCancel()
	go func() {
		defer close(ended)
		elector.Run(ctx)
	}()
	tCtx.Cleanup(func() {
		ctx.Cancel("the workload is done")
		<-ended
	})
	return nil
}

// serve starts a process of Drawbridge, which ends with the workload.
func serve(tCtx ktesting.TContext, name string, options ...string) error {
	log, err := os.Create(filepath.Join(filepath.Dir(*socket), name+".log"))
	if err != nil {
		return fmt.Errorf("log of the %s: %w", name, err)
	}
	shared := []string{"serve", name, "--config-map", "--kubeconfig=" + *kubeconfig, "--namespace=" + namespace,
		"--health=127.0.0.1:0", "--metrics=127.0.0.1:0"}
	process := exec.Command(*drawbridge, append(shared, options...)...)
	process.Stdout, process.Stderr = log, log
	// It ends with this process, even if that is killed.
	process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := process.Start(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	tCtx.Cleanup(func() {
		defer log.Close()
		timer := time.AfterFunc(stopLimit, func() { _ = process.Process.Kill() })
		defer timer.Stop()
		_ = process.Process.Signal(syscall.SIGTERM)
		if err := process.Wait(); err != nil {
			tCtx.Logf("the %s ended: %v", name, err)
		}
		used := process.ProcessState.UserTime() + process.ProcessState.SystemTime()
		// Metrics of a benchmark that misses its threshold are not printed.
		fmt.Printf("%.2f %s_seconds\n", used.Seconds(), name)
	})
	return nil
}

func waitReady(tCtx ktesting.TContext) error {
	client := protocol.NewClient(*socket)
	deadline := time.Now().Add(startLimit)
	for {
		status, err := client.Status(tCtx, protocol.StatusRequest{})
		switch {
		case err == nil && status.Ready && status.Leading:
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("the allocator is not ready within %s: %v, %v", startLimit, status.Reasons, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}
