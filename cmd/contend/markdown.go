package main

import (
	"fmt"
	"strings"
	"unicode/utf8"

	// A parser of Markdown, pure Go and held to CommonMark's own tests; it adds
	// 1.1 MB. The layout for a terminal is ours: libraries that do that too bring
	// highlighting of code and tables with borders, and no page wants either.
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	table "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// SGR parameters of ECMA-48.
const (
	boldText = "1"
	codeText = "36" // cyan, as names are in reports
)

// markdownText lays out Markdown for a terminal of so many columns: headings in
// bold and code in colour where color is set, filled paragraphs and lists, and of
// tables each row as a list, since their cells are sentences.
func markdownText(source string, width int, color bool) string {
	p := parser.NewParser(
		parser.WithBlockParsers(parser.DefaultBlockParsers()...),
		parser.WithInlineParsers(parser.DefaultInlineParsers()...),
		parser.WithParagraphTransformers(append(parser.DefaultParagraphTransformers(), util.Prioritized(extension.NewTableParagraphTransformer(), 200))...),
	)
	l := &layout{source: []byte(source), width: width, color: color}
	l.blocks(p.Parse(text.NewReader(l.source)), "", "")
	return l.out.String()
}

type layout struct {
	source []byte
	width  int
	color  bool
	out    strings.Builder
}

// blocks lays out what is in a node, its first line after first and the others after rest.
func (l *layout) blocks(parent ast.Node, first, rest string) {
	for n := parent.FirstChild(); n != nil; n = n.NextSibling() {
		tight := n.Kind() == ast.KindTextBlock || n.Kind() == ast.KindListItem || n.Kind() == ast.KindList && parent.Kind() == ast.KindListItem
		if l.out.Len() > 0 && n.PreviousSibling() != nil && !tight {
			l.out.WriteByte('\n')
		}
		switch n := n.(type) {
		case *ast.Heading:
			l.fill(style(boldText, l.words(n)), first, rest)
		case *ast.List:
			l.list(n, rest)
		case *table.Table:
			l.table(n, rest)
		case *ast.Paragraph, *ast.TextBlock:
			l.fill(l.words(n), first, rest)
		default: // of code; no page has others
			for i := range n.Lines().Len() {
				at := n.Lines().At(i)
				l.out.WriteString(rest + "  " + strings.TrimRight(string(at.Value(l.source)), "\n") + "\n")
			}
		}
		first = rest
	}
}

func (l *layout) list(list *ast.List, indent string) {
	number := list.Start
	for item := list.FirstChild(); item != nil; item = item.NextSibling() {
		mark := "- "
		if list.IsOrdered() {
			mark = fmt.Sprintf("%d. ", number)
			number++
		}
		l.blocks(item, indent+mark, indent+strings.Repeat(" ", len(mark)))
	}
}

func (l *layout) table(t *table.Table, indent string) {
	var heads []string
	longest := 0
	for row := t.FirstChild(); row != nil; row = row.NextSibling() {
		column := 0
		for cell := row.FirstChild(); cell != nil; cell = cell.NextSibling() {
			words := l.words(cell)
			switch {
			case row.Kind() == table.KindTableHeader:
				heads = append(heads, plainText(words))
				longest = max(longest, utf8.RuneCountInString(heads[column]))
			case column == 0:
				l.fill(style(boldText, words), indent, indent)
			default:
				first := fmt.Sprintf("%s  %-*s  ", indent, longest, heads[column])
				l.fill(words, first, strings.Repeat(" ", utf8.RuneCountInString(first)))
			}
			column++
		}
	}
}

// word is what stands between two blanks: pieces, each in one style.
type word []piece

type piece struct{ text, style string }

// words are the text in a node.
func (l *layout) words(n ast.Node) []word {
	var out []word
	open := false // the last word goes on
	add := func(s, style string) {
		for i, field := range strings.Split(strings.ReplaceAll(s, "\n", " "), " ") {
			open = open && i == 0
			if field == "" {
				continue
			}
			if !open {
				out = append(out, nil)
			}
			out[len(out)-1] = append(out[len(out)-1], piece{field, style})
			open = true
		}
	}
	var visit func(n ast.Node, style string)
	visit = func(n ast.Node, style string) {
		quote := ""
		switch n := n.(type) {
		case *ast.Text:
			add(string(n.Segment.Value(l.source)), style)
			if n.SoftLineBreak() || n.HardLineBreak() {
				open = false
			}
		case *ast.Emphasis:
			style = boldText
		case *ast.CodeSpan:
			style = codeText
			if !l.color {
				quote = "`"
			}
		}
		add(quote, style)
		for c := n.FirstChild(); c != nil; c = c.NextSibling() {
			visit(c, style)
		}
		add(quote, style)
	}
	visit(n, "")
	return out
}

// style is words all of which have a style.
func style(s string, words []word) []word {
	for _, w := range words {
		for i := range w {
			w[i].style = s
		}
	}
	return words
}

func plainText(words []word) string {
	var out []string
	for _, w := range words {
		text := ""
		for _, p := range w {
			text += p.text
		}
		out = append(out, text)
	}
	return strings.Join(out, " ")
}

// fill writes words in lines of the layout's width; a longer word has one of its own.
func (l *layout) fill(words []word, first, rest string) {
	l.out.WriteString(first)
	used, begun := utf8.RuneCountInString(first), false
	for _, w := range words {
		n := 0
		for _, p := range w {
			n += utf8.RuneCountInString(p.text)
		}
		switch {
		case begun && used+1+n > l.width:
			l.out.WriteString("\n" + rest)
			used = utf8.RuneCountInString(rest)
		case begun:
			l.out.WriteByte(' ')
			used++
		}
		for _, p := range w {
			if l.color && p.style != "" {
				fmt.Fprintf(&l.out, "\x1b[%sm%s\x1b[0m", p.style, p.text)
			} else {
				l.out.WriteString(p.text)
			}
		}
		used, begun = used+n, true
	}
	l.out.WriteByte('\n')
}
