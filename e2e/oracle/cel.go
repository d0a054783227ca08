package main

import (
	"context"
	"encoding/json"
	"regexp"
	"strconv"
	"time"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apiserver/pkg/cel/environment"
	dracel "k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/utils/ptr"
)

type device struct {
	Driver                   string                                                    `json:"driver"`
	AllowMultipleAllocations *bool                                                     `json:"allowMultipleAllocations"`
	Attributes               map[resourceapi.QualifiedName]resourceapi.DeviceAttribute `json:"attributes"`
	Capacity                 map[resourceapi.QualifiedName]resource.Quantity           `json:"capacity"`
}

type question struct {
	Device         device `json:"device"`
	Expression     string `json:"expression"`
	ListAttributes string `json:"list_attributes"`
	Rounds         int    `json:"rounds"`
}

type answer struct {
	Compile          string  `json:"compile"`
	Admitted         bool    `json:"admitted"`
	NewCompile       string  `json:"new_compile"`
	Result           any     `json:"result"`
	ErrorKind        string  `json:"error_kind,omitempty"`
	Error            string  `json:"error,omitempty"`
	ErrorPosition    []int   `json:"error_position,omitempty"`
	Cost             *uint64 `json:"cost"`
	EstimatedMaxCost *uint64 `json:"estimated_max_cost"`
}

// The words of the reference and the kinds that stand for them, first match wins.
var kinds = []struct {
	words *regexp.Regexp
	kind  string
}{
	{regexp.MustCompile(`recursion`), "recursion"},
	{regexp.MustCompile(`^program instantiation failed`), "constant"},
	{regexp.MustCompile(`^must evaluate to|could not be converted to bool`), "not_bool"},
	{regexp.MustCompile(`reserved identifier`), "reserved"},
	{regexp.MustCompile(`must be a simple|variable names? must be|invalid argument to has|duplicate variable|can only be applied to`), "macro"},
	{regexp.MustCompile(`Syntax error|unsupported syntax|^compilation failed.*(invalid|unexpected) (int|uint|double|bytes|string|escape)`), "syntax"},
	{regexp.MustCompile(`^compilation failed(.*\n?)*?(invalid (timestamp|duration|matches) argument|formatting clause|error during formatting|too many arguments|unexpected end of string)`), "literal"},
	{regexp.MustCompile(`undeclared reference`), "undeclared"},
	{regexp.MustCompile(`found no matching overload`), "no_matching_overload"},
	{regexp.MustCompile(`cannot be range of a comprehension|expected iterable type|unsupported comprehension range`), "not_iterable"},
	{regexp.MustCompile(`expected type .* but found`), "type_mismatch"},
	{regexp.MustCompile(`does not support field selection|unexpected failed resolution`), "field_selection"},
	{regexp.MustCompile(`undefined field`), "undefined_field"},
	{regexp.MustCompile(`actual cost limit exceeded`), "cost_exceeded"},
	{regexp.MustCompile(`unsupported attribute value`), "unsupported_attribute"},
	{regexp.MustCompile(`^internal error`), "internal"},
	{regexp.MustCompile(`no such key`), "no_such_key"},
	{regexp.MustCompile(`division by zero|modulus by zero`), "division_by_zero"},
	{regexp.MustCompile(`no such overload`), "no_such_overload"},
	{regexp.MustCompile(`called on empty list`), "empty_list"},
	{regexp.MustCompile(`error during formatting`), "format"},
	{regexp.MustCompile(`list elements must have|cannot be applied to lists longer`), "list_elements"},
	{regexp.MustCompile(`NaN values`), "nan_order"},
	{regexp.MustCompile(`optional.none\(\) dereference`), "optional_none"},
	{regexp.MustCompile(`integer overflow`), "overflow"},
	{regexp.MustCompile(`cannot convert value to integer|quantities must match`), "quantity"},
	{regexp.MustCompile(`parse error during conversion`), "net"},
	{regexp.MustCompile(`Illegal regex`), "regex"},
	{regexp.MustCompile(`Major.Minor.Patch|leading zeroes|short version|PreRelease|Build meta`), "semver"},
	{regexp.MustCompile(`time zone`), "timezone"},
	{regexp.MustCompile(`type conversion error`), "conversion"},
	{regexp.MustCompile(`index out of|unsupported index|cannot slice|invalid substring`), "index"},
}

var position = regexp.MustCompile(`<input>:(-?\d+):(-?\d+)`)

func (a *answer) fail(words string) {
	a.Error, a.ErrorKind = words, "other"
	for _, entry := range kinds {
		if entry.words.MatchString(words) {
			a.ErrorKind = entry.kind
			break
		}
	}
	if found := position.FindStringSubmatch(words); found != nil {
		line, _ := strconv.Atoi(found[1])
		column, _ := strconv.Atoi(found[2])
		a.ErrorPosition = []int{line, column}
	}
}

func (q *question) compile(kind environment.Type) dracel.CompilationResult {
	compiler := dracel.GetCompiler(features(q.ListAttributes == "on"))
	return compiler.CompileCELExpression(q.Expression, dracel.Options{EnvType: &kind})
}

func (q *question) input() dracel.Device {
	capacity := map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{}
	for name, value := range q.Device.Capacity {
		capacity[name] = resourceapi.DeviceCapacity{Value: value}
	}
	return dracel.Device{
		Driver:                   q.Device.Driver,
		AllowMultipleAllocations: q.Device.AllowMultipleAllocations,
		Attributes:               q.Device.Attributes,
		Capacity:                 capacity,
	}
}

func judge(line []byte) any {
	var q question
	if err := json.Unmarshal(line, &q); err != nil {
		return map[string]string{"error": err.Error()}
	}
	out := answer{Compile: "error", NewCompile: "error"}
	fresh := q.compile(environment.NewExpressions)
	if fresh.Error == nil {
		out.NewCompile = "ok"
		out.Admitted = fresh.MaxCost <= resourceapi.CELSelectorExpressionMaxCost &&
			len(q.Expression) <= resourceapi.CELSelectorExpressionMaxLength
	}
	stored := q.compile(environment.StoredExpressions)
	if stored.Error != nil {
		out.fail(stored.Error.Detail)
		return out
	}
	out.Compile, out.EstimatedMaxCost = "ok", &stored.MaxCost
	matches, details, err := stored.DeviceMatches(context.Background(), q.input())
	out.Result = matches
	if details != nil {
		out.Cost = details.ActualCost()
	}
	if err != nil {
		out.Result = "error"
		out.fail(err.Error())
	}
	return out
}

// domains is a map whose unknown domains are empty, as the reference hands attributes in.
type domains struct {
	traits.Mapper
	empty ref.Val
}

func (d domains) Find(key ref.Val) (ref.Val, bool) {
	if value, found := d.Mapper.Find(key); found {
		return value, true
	}
	return d.empty, true
}

func measure(line []byte) any {
	var q question
	if err := json.Unmarshal(line, &q); err != nil {
		return map[string]string{"error": err.Error()}
	}
	start := time.Now()
	program := q.compile(environment.StoredExpressions)
	compile := time.Since(start)
	if program.Error != nil {
		return map[string]string{"error": program.Error.Detail}
	}
	for i := 0; i < 20; i++ {
		start = time.Now()
		program = q.compile(environment.StoredExpressions)
		compile = min(compile, time.Since(start))
	}
	input := q.input()
	start = time.Now()
	for i := 0; i < q.Rounds; i++ {
		if _, _, err := program.DeviceMatches(context.Background(), input); err != nil {
			return map[string]string{"error": err.Error()}
		}
	}
	match := time.Since(start)
	variables := q.variables(program)
	start = time.Now()
	for i := 0; i < q.Rounds; i++ {
		if _, _, err := program.Program.ContextEval(context.Background(), variables); err != nil {
			return map[string]string{"error": err.Error()}
		}
	}
	evaluate := time.Since(start)
	rounds := float64(q.Rounds)
	return map[string]float64{
		"compile_ns":  float64(compile.Nanoseconds()),
		"match_ns":    float64(match.Nanoseconds()) / rounds,
		"evaluate_ns": float64(evaluate.Nanoseconds()) / rounds,
	}
}

// variables are the native values that DeviceMatches would build anew for every call.
func (q *question) variables(program dracel.CompilationResult) map[string]any {
	adapter := program.Environment.CELTypeAdapter()
	empty := adapter.NativeToValue(map[string]any{})
	attributes, capacity := map[string]any{}, map[string]any{}
	put := func(all map[string]any, name resourceapi.QualifiedName, value any) {
		domain, id := split(string(name), q.Device.Driver)
		if all[domain] == nil {
			all[domain] = map[string]any{}
		}
		all[domain].(map[string]any)[id] = value
	}
	for name, value := range q.Device.Attributes {
		put(attributes, name, native(value))
	}
	for name, value := range q.Device.Capacity {
		put(capacity, name, quantity(value))
	}
	wrap := func(all map[string]any) traits.Mapper {
		return domains{types.NewStringInterfaceMap(adapter, all), empty}
	}
	return map[string]any{"device": map[string]any{
		"driver":                   q.Device.Driver,
		"allowMultipleAllocations": ptr.Deref(q.Device.AllowMultipleAllocations, false),
		"attributes":               wrap(attributes),
		"capacity":                 wrap(capacity),
	}}
}
