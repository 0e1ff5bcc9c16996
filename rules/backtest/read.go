package backtest

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v3"
)

// MaxFile is how many bytes a rule file may have. The rules of kubernetes-mixin
// are 200 KiB; whole companies' are a few MiB.
const MaxFile = 16 << 20

const (
	maxRules = 20_000
	// contend's longest expression, which reads all metrics that it knows, has 83 KB.
	maxExpr = 256 << 10
	// The parser and each step of the engine take time by the square of how deep an
	// expression is: so much takes 5 ms and 10 ms a step. contend's has some 400 operators,
	// 20 brackets deep.
	maxOperators, maxDepth = 1000, 1000
	// A template of a label is parsed again for each sample: so much takes 2 ms. The
	// longest annotations of kubernetes-mixin have 1 KB, and two ifs in each other.
	maxTemplate, maxNested = 16 << 10, 100
	// So many errors of one file are told.
	maxErrors = 20
)

// Group is a group of rules that are evaluated in order.
type Group struct {
	File string // as reports call it, with the resource where it is of several: "all.yaml (shop/alerts)"
	rulefmt.RuleGroup
}

// Parse reads a rule file: as Prometheus, promtool and Thanos have it, as
// mimirtool has it (with a namespace), or as the Prometheus operator has it
// (PrometheusRule, or a List of them); several documents in one file are all
// read. Each error names the file, the line and what was expected; a file with an
// error has no groups, since a server would refuse it as a whole.
func Parse(file string, data []byte) ([]Group, error) {
	if len(data) > MaxFile {
		return nil, fmt.Errorf("%s: expected a rule file of at most %d MiB, saw %d bytes", file, MaxFile>>20, len(data))
	}
	r := reader{file: file, seen: map[string]bool{}}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var doc yaml.Node
		err := dec.Decode(&doc)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			r.yaml(&doc, err)
			break
		}
		if len(doc.Content) == 1 {
			r.document(doc.Content[0], 0)
		}
	}
	if len(r.errs) > 0 {
		return nil, errors.Join(r.errs...)
	}
	if len(r.groups) == 0 {
		return nil, fmt.Errorf("%s:1: expected groups of rules (groups: - name: …), saw none", file)
	}
	return r.groups, nil
}

type reader struct {
	file     string
	resource string          // that is being read: namespace/name, or mimirtool's namespace; "" of a plain file
	seen     map[string]bool // names of groups in it
	groups   []Group
	rules    int
	errs     []error
}

func (r *reader) fail(line int, format string, args ...any) {
	switch {
	case len(r.errs) < maxErrors:
		r.errs = append(r.errs, fmt.Errorf("%s:%d: "+format, append([]any{r.file, max(line, 1)}, args...)...))
	case len(r.errs) == maxErrors:
		r.errs = append(r.errs, fmt.Errorf("%s: and more", r.file))
	}
}

var yamlLine = regexp.MustCompile(`(?m)^\s*(?:yaml: )?(?:line (\d+): )?`)

// yaml tells an error of the YAML package, whose line is in its text.
func (r *reader) yaml(n *yaml.Node, err error) {
	var several *yaml.TypeError
	texts := []string{err.Error()}
	if errors.As(err, &several) {
		texts = several.Errors
	}
	for _, text := range texts {
		line := n.Line
		if m := yamlLine.FindStringSubmatch(text); m != nil {
			fmt.Sscan(m[1], &line)
			text = text[len(m[0]):]
		}
		r.fail(line, "expected YAML of rules: %s", text)
	}
}

// resolve follows an alias, which never leads to another.
func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// field is the value of a key; nil where there is none.
func field(n *yaml.Node, name string) *yaml.Node {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return resolve(n.Content[i+1])
		}
	}
	return nil
}

// values are those of a mapping by key, with what it merges; none of what is no mapping.
func values(n *yaml.Node) map[string]*yaml.Node {
	var direct map[string]yaml.Node
	if n == nil || n.Decode(&direct) != nil {
		return nil
	}
	out := map[string]*yaml.Node{}
	for key, value := range direct {
		out[key] = resolve(&value)
	}
	return out
}

// known refuses what is no mapping, and keys that nobody knows: a misspelt "for"
// would else be none.
func (r *reader) known(n *yaml.Node, what string, keys ...string) bool {
	if n.Kind != yaml.MappingNode {
		r.fail(n.Line, "expected %s with %s, saw %s", what, keys[0], kindOf(n))
		return false
	}
	ok := true
	for i := 0; i+1 < len(n.Content); i += 2 {
		if key := n.Content[i]; !slices.Contains(keys, key.Value) && key.Tag != "!!merge" {
			r.fail(key.Line, "unknown field %q in %s; expected one of %s", clip(key.Value), what, strings.Join(keys, ", "))
			ok = false
		}
	}
	return ok
}

func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.SequenceNode:
		return "a list"
	case yaml.MappingNode:
		return "fields"
	}
	return fmt.Sprintf("%q", clip(n.Value))
}

// clip shortens a text that is quoted in a message.
func clip(text string) string {
	const most = 100
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

func (r *reader) document(n *yaml.Node, depth int) {
	n = resolve(n)
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return // between two ---
	}
	kind := field(n, "kind")
	switch {
	case n.Kind != yaml.MappingNode || kind == nil:
		// mimirtool writes a namespace, and federated rules have their tenants.
		if r.known(n, "a rule file", "groups", "namespace") {
			if namespace := text(n, "namespace"); namespace != r.resource {
				r.enter(namespace)
			}
			r.list(n, "groups", "a rule file", r.group)
		}
	case strings.HasSuffix(kind.Value, "List") && depth == 0:
		r.list(n, "items", "a List", func(item *yaml.Node) { r.document(item, 1) })
	case kind.Value != "PrometheusRule":
		r.fail(kind.Line, "expected kind: PrometheusRule, saw %s", kindOf(kind))
	default:
		name := ""
		if meta := field(n, "metadata"); meta != nil {
			name = strings.TrimPrefix(text(meta, "namespace")+"/"+text(meta, "name"), "/")
		}
		r.enter(name)
		spec := field(n, "spec")
		if spec == nil {
			r.fail(n.Line, "expected a PrometheusRule with spec, saw none")
		} else if r.known(spec, "spec of a PrometheusRule", "groups") {
			r.list(spec, "groups", "spec of a PrometheusRule", r.group)
		}
	}
}

// enter begins another resource: its groups may have the names of another's, since
// each becomes a file of its own on the server.
func (r *reader) enter(resource string) {
	r.resource, r.seen = resource, map[string]bool{}
}

// text is the value of a key where that is a text; "" where there is none.
func text(n *yaml.Node, name string) string {
	if v := field(n, name); v != nil && v.Kind == yaml.ScalarNode && v.Tag != "!!null" {
		return clip(v.Value)
	}
	return ""
}

// list calls f for each element of a field.
func (r *reader) list(n *yaml.Node, name, of string, f func(*yaml.Node)) {
	l := field(n, name)
	if l == nil || l.Tag == "!!null" {
		return
	}
	if l.Kind != yaml.SequenceNode {
		r.fail(l.Line, "expected a list as %s of %s, saw %s", name, of, kindOf(l))
		return
	}
	for _, item := range l.Content {
		if len(r.errs) > maxErrors || r.rules > maxRules {
			return
		}
		f(resolve(item))
	}
}

// group reads a group. Beside Prometheus' fields are those of Thanos, of Mimir
// and of the operator, which mean nothing to a replay.
func (r *reader) group(n *yaml.Node) {
	if !r.known(n, "a group", "name", "rules", "interval", "query_offset", "limit", "labels",
		"partial_response_strategy", "source_tenants", "evaluation_delay", "align_evaluation_time_on_interval") {
		return
	}
	g := Group{File: r.file}
	in := "the file"
	if r.resource != "" {
		g.File += " (" + r.resource + ")"
		in = r.resource
	}
	if !r.durations(n, "a group", "interval", "query_offset", "evaluation_delay") {
		return
	}
	var head struct {
		Name        string            `yaml:"name"`
		Interval    model.Duration    `yaml:"interval"`
		QueryOffset *model.Duration   `yaml:"query_offset"`
		Delay       *model.Duration   `yaml:"evaluation_delay"` // Mimir's older name of query_offset
		Limit       int               `yaml:"limit"`
		Labels      map[string]string `yaml:"labels"`
	}
	if err := n.Decode(&head); err != nil {
		r.yaml(n, err)
		return
	}
	if head.QueryOffset == nil {
		head.QueryOffset = head.Delay
	}
	g.Name, g.Interval, g.QueryOffset, g.Limit, g.Labels = head.Name, head.Interval, head.QueryOffset, head.Limit, head.Labels
	if g.Name == "" {
		r.fail(n.Line, "expected a group with a name, saw none")
	}
	for name := range g.Labels {
		if !model.UTF8Validation.IsValidLabelName(name) || name == model.MetricNameLabel {
			r.fail(n.Line, "group %q: invalid label name %q", clip(g.Name), clip(name))
		}
	}
	r.list(n, "rules", "a group", func(n *yaml.Node) { r.rule(&g, n) })
	if r.seen[g.Name] {
		r.fail(n.Line, "group %q is in %s twice; a server takes each name once", clip(g.Name), in)
	}
	r.seen[g.Name] = true
	r.groups = append(r.groups, g)
}

func (r *reader) rule(g *Group, n *yaml.Node) {
	if r.rules++; r.rules > maxRules {
		r.fail(n.Line, "expected at most %d rules, saw more", maxRules)
		return
	}
	if !r.known(n, "a rule", "alert", "record", "expr", "for", "keep_firing_for", "labels", "annotations") ||
		!r.durations(n, "a rule", "for", "keep_firing_for") {
		return
	}
	var rule rulefmt.Rule
	var nodes rulefmt.RuleNode
	err := n.Decode(&rule)
	if err == nil {
		err = n.Decode(&nodes) // the same, with lines
	}
	if err != nil {
		r.yaml(n, err)
		return
	}
	name := rule.Alert + rule.Record
	if len(rule.Expr) > maxExpr {
		r.fail(nodes.Expr.Line, "group %q, rule %q: expected an expression of at most %d KiB, saw %d bytes", clip(g.Name), clip(name), maxExpr>>10, len(rule.Expr))
		return
	}
	if err := simple(rule.Expr); err != nil {
		r.fail(nodes.Expr.Line, "group %q, rule %q: %w", clip(g.Name), clip(name), err)
		return
	}
	lines := map[string]int{} // of templates, as Validate calls them
	for _, kind := range []string{"label", "annotation"} {
		all := values(values(n)[kind+"s"])
		for _, key := range slices.Sorted(maps.Keys(all)) {
			of, value := fmt.Sprintf("%s %q", kind, key), all[key]
			lines[of] = value.Line
			if err := plainTemplate(value.Value); err != nil {
				r.fail(value.Line, "group %q, rule %q: %s: %w", clip(g.Name), clip(name), clip(of), err)
				return
			}
		}
	}
	errs := rule.Validate(nodes, model.UTF8Validation, parser.NewParser(parser.Options{}))
	for i := range errs {
		// The text begins with a line where it is known, and may be of many.
		line := 0
		fmt.Sscanf(errs[i].Error(), "%d:", &line)
		text := strings.ReplaceAll(errs[i].Unwrap().Error(), "\n", " ")
		of, _, _ := strings.Cut(text, ": ")
		line = cmp.Or(line, lines[of], n.Line)
		r.fail(line, "group %q, rule %q: %s", clip(g.Name), clip(name), text)
	}
	g.Rules = append(g.Rules, rule)
}

// durations refuses values that are no durations. Decoding a whole group or rule
// would not say on which line they are.
func (r *reader) durations(n *yaml.Node, of string, names ...string) bool {
	all, ok := values(n), true
	for _, name := range names {
		value := all[name]
		if value == nil {
			continue
		}
		if err := value.Decode(new(model.Duration)); err != nil {
			r.fail(value.Line, "expected a duration such as 90s, 5m or 1d, below 292y, as %s of %s, saw %s", name, of, kindOf(value))
			ok = false
		}
	}
	return ok
}

// simple refuses an expression that would take long to parse.
func simple(expr string) error {
	operators, depth := 0, 0
	for lex := parser.Lex(expr); ; {
		var item parser.Item
		lex.NextItem(&item)
		switch {
		case item.Typ == parser.EOF, item.Typ == parser.ERROR:
			return nil // the parser says what is wrong
		case item.Typ.IsOperator():
			operators++
		case item.Typ == parser.LEFT_PAREN:
			depth++
		case item.Typ == parser.RIGHT_PAREN:
			depth--
		}
		if operators > maxOperators || depth > maxDepth {
			return fmt.Errorf("expected an expression of at most %d operators and %d brackets in each other, saw more", maxOperators, maxDepth)
		}
	}
}

// plainTemplate refuses a template that would take long to parse.
func plainTemplate(text string) error {
	if len(text) > maxTemplate {
		return fmt.Errorf("expected a template of at most %d KiB, saw %d bytes", maxTemplate>>10, len(text))
	}
	depth := 0
	for _, action := range strings.Split(text, "{{")[1:] {
		action = strings.TrimLeft(action, "- \t\r\n")
		switch word := action[:len(action)-len(strings.TrimLeftFunc(action, unicode.IsLetter))]; word {
		case "if", "with", "range", "define", "block":
			depth++
		case "end":
			depth--
		}
		if depth > maxNested {
			return fmt.Errorf("expected a template of at most %d ifs and loops in each other, saw more", maxNested)
		}
	}
	return nil
}
