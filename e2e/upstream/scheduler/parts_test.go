package scheduler

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/test/utils/ktesting"
)

const (
	sampleInterval = 100 * time.Millisecond
	// The unit in which Linux counts the CPU time of a process.
	tick = 10 * time.Millisecond
	// Fields of /proc/PID/stat after the name of the program: its parent, and its user and system time.
	parentField, userField, systemField = 1, 11, 12
	program                             = "benchmark"
)

// processTimes has the CPU time of this process and of each process that it started, by name.
type processTimes map[string]time.Duration

// measureParts prints how much CPU time each process took for a pod, from the first pod to the last one.
//
// The API server and the scheduler are in this process, so they are one part.
func measureParts(tCtx ktesting.TContext) error {
	counter := &boundPods{}
	factory := informers.NewSharedInformerFactory(tCtx.Client(), 0)
	if _, err := factory.Core().V1().Pods().Informer().AddEventHandler(counter); err != nil {
		return fmt.Errorf("pods: %w", err)
	}
	factory.Start(tCtx.Done())
	tCtx.Cleanup(counter.print)
	return nil
}

// boundPods counts pods, and measures at the first and, now and then, until the last one.
type boundPods struct {
	mutex       sync.Mutex
	count       int
	firstCount  int
	lastCount   int
	sampled     time.Time
	first, last processTimes
}

func (pods *boundPods) OnAdd(any, bool) {}

func (pods *boundPods) OnDelete(any) {}

func (pods *boundPods) OnUpdate(before, after any) {
	if before.(*v1.Pod).Spec.NodeName != "" || after.(*v1.Pod).Spec.NodeName == "" {
		return
	}
	pods.mutex.Lock()
	defer pods.mutex.Unlock()
	pods.count++
	if time.Since(pods.sampled) < sampleInterval {
		return
	}
	pods.sampled, pods.last, pods.lastCount = time.Now(), readProcessTimes(), pods.count
	if pods.first == nil {
		pods.first, pods.firstCount = pods.last, pods.lastCount
	}
}

func (pods *boundPods) print() {
	pods.mutex.Lock()
	defer pods.mutex.Unlock()
	count := pods.lastCount - pods.firstCount
	if count == 0 {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(pods.last)) {
		used := pods.last[name] - pods.first[name]
		fmt.Printf("%.3f ms_a_pod %s\n", used.Seconds()*1000/float64(count), name)
	}
}

func readProcessTimes() processTimes {
	times := processTimes{}
	paths, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		pid := filepath.Base(filepath.Dir(path))
		if own := strconv.Itoa(os.Getpid()); pid == own || fields[parentField] == own {
			times[nameProcess(pid, own)] += readTicks(fields[userField]) + readTicks(fields[systemField])
		}
	}
	return times
}

// nameProcess returns the part of Drawbridge that a process is, or the name of its program.
func nameProcess(pid, own string) string {
	if pid == own {
		return program
	}
	line, _ := os.ReadFile(filepath.Join("/proc", pid, "cmdline"))
	words := strings.Split(string(line), "\x00")
	if at := slices.Index(words, "serve"); at >= 0 && at+1 < len(words) {
		return words[at+1]
	}
	return filepath.Base(words[0])
}

func readTicks(text string) time.Duration {
	number, _ := strconv.Atoi(text)
	return time.Duration(number) * tick
}

var _ cache.ResourceEventHandler = &boundPods{}
