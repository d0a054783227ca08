// The oracle answers as Kubernetes itself does: a thin shell around its own packages.
//
// `oracle cel` reads one JSON object a line ({"device", "expression", "list_attributes"}) and
// writes one line each, in the fields of `drawbridge cel --batch`. `oracle bench` reads the same
// lines and writes what one compilation and one evaluation cost. Built with the tag `allocator`
// (Kubernetes 1.37) it also takes scenarios: `oracle allocate`, `oracle rounds`, and for the checker
// of allocations `oracle evaluate`. It decides nothing of its own.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

func lines(answer func([]byte) any) error {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(make([]byte, 1<<20), 1<<26)
	out := bufio.NewWriter(os.Stdout)
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	for in.Scan() {
		if err := encoder.Encode(answer(in.Bytes())); err != nil {
			return err
		}
		// A caller that asks one question at a time waits for the answer.
		if err := out.Flush(); err != nil {
			return err
		}
	}
	return in.Err()
}

// modes grow in the files that only some versions are built with.
var modes = map[string]func([]byte) any{"cel": judge, "bench": measure}

func main() {
	if len(os.Args) != 2 || modes[os.Args[1]] == nil {
		names := slices.Sorted(maps.Keys(modes))
		fmt.Fprintln(os.Stderr, "usage: oracle "+strings.Join(names, "|"))
		os.Exit(2)
	}
	if err := lines(modes[os.Args[1]]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
