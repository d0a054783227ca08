// Command ask says whether the driver for network interfaces takes configurations: it reads the
// parameters of one from each line, and writes what the driver's own check says of them.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/dranet/pkg/apis"
)

type answer struct {
	Allowed bool   `json:"allowed"`
	Message string `json:"message"`
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		_, problems := apis.ValidateConfig(&runtime.RawExtension{Raw: lines.Bytes()})
		said := answer{Allowed: len(problems) == 0}
		if !said.Allowed {
			said.Message = errors.Join(problems...).Error()
		}
		line, err := json.Marshal(said)
		if err != nil {
			panic(err)
		}
		fmt.Println(string(line))
	}
}
