package ingest

import (
	"errors"
	"fmt"
	"io"

	"github.com/google/pprof/profile"

	"github.com/contend/contend/ingest/stacks"
)

// Profile is one pprof profile, as it was read and as what contend makes of it.
type Profile struct {
	*profile.Profile
	Bundle *Bundle // it alone: one snapshot, or one profile of waits
	table  *stacks.ProfileStacks
}

// ReadProfile reads a goroutine, block or mutex profile in protobuf, gzipped
// or not, to its end. maxBytes limits what it may unpack to, 0 for 512 MiB; what
// would take more than 1 GiB of memory is refused. Text, series and profiles that
// do not say who waits are errors that say what they are.
func ReadProfile(name string, r io.Reader, maxBytes int64) (*Profile, error) {
	in := &source{r: r, limit: newLoader(Options{MaxBytes: maxBytes}).maxProfile}
	head, complete, err := in.unpack()
	if err != nil {
		return nil, asProfile(err)
	}
	kind, why := sniff(head, complete)
	switch {
	case in.err != nil:
		return nil, in.failure(false)
	case kind == other:
		return nil, asProfile(why)
	case kind != proto:
		return nil, asProfile(&notProfile{"text", tryGoroutine})
	}
	data, err := in.all(in.limit)
	if err != nil {
		return nil, err
	}
	parsed, err := parseProto(data)
	if err != nil {
		return nil, err
	}
	p := &Profile{Profile: parsed, Bundle: &Bundle{}, table: stacks.NewProfileStacks(parsed)}
	read, err := fromProfile(name, parsed, p.table)
	if err != nil {
		return nil, asProfile(err)
	}
	p.Bundle.addReading(read, "")
	return p, nil
}

// asProfile is an error of analyze's inputs where only a profile will do.
func asProfile(err error) error {
	if n, ok := errors.AsType[*notProfile](err); ok {
		return fmt.Errorf("expected a goroutine, block or mutex profile in protobuf, saw %s; try %s", n.saw, n.try)
	}
	return err
}

// Frames are those of a sample of p, leaf first: the very slice that its group
// or site in the bundle has.
func (p *Profile) Frames(s *profile.Sample) ([]*stacks.Frame, error) {
	stack, err := p.table.Add(s)
	if err != nil {
		return nil, err
	}
	return p.table.Frames(stack), nil
}
