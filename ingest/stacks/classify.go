package stacks

import "strings"

// Classify says what a stack waits for. frames are leaf first; reason is the
// state or wait reason of a text dump's header, "" where there is none. Where
// the two disagree, frames win, except that a header saying running or
// runnable is believed: the goroutine was woken, and its frames show what it
// waited for before. The frames by Go release were found by running them;
// never is runtime.semacquire1 alone evidence of a lock, since WaitGroup,
// RWMutex and descriptor locks all stand on it.
func Classify(frames []*Frame, reason string) Wait {
	w := Wait{Site: -1, LockFrame: -1}
	i := machinery(frames, &w)
	if w.Kind == Unknown {
		w.byReason(reason)
	} else if w.Kind == Chan || w.Kind == Select {
		w.Nil = w.Nil || neverEnds(reason)
	}
	if i < len(frames) {
		w.Site = i
	}
	if w.Release {
		return w // whatever its state: it is inside the lock's slow path
	}
	// Woken or not, a goroutine inside a lock waits for it: those who were just
	// given it are part of a convoy.
	if state, woken := schedulerState(reason); woken && !w.Kind.IsLock() && !(w.Site >= 0 && idleSite[Key(frames[w.Site])]) {
		// The site is where its own code stands; what it waited for, it has.
		w.Kind, w.Nil, w.Send = state, false, false
		return w
	}
	if w.Kind == Unknown && reason == "" && w.Site >= 0 && parkless(frames) {
		w.Kind = Running
		if idleSite[Key(frames[w.Site])] {
			w.Kind = Idle
		}
	}
	w.refine(frames)
	return w
}

// ClassifyRelease reads a stack of a mutex profile, whose leaf is the release
// of a lock: the kind is that of the lock, the site the function that released
// it. The runtime's own locks come out as Idle: they are nobody's code.
func ClassifyRelease(frames []*Frame) Wait {
	w := Wait{Kind: Unknown, Site: -1, LockFrame: -1}
	for i, f := range frames {
		switch {
		case isRuntime(f):
			if w.Kind == Unknown && (strings.HasPrefix(f.Name, "unlock") || f.Name == "_LostContendedRuntimeLock") {
				w.Kind = Idle
				return w
			}
		case isSync(f):
			switch f.Name {
			case "RUnlock", "rUnlockSlow":
				w.Kind = RLock
			case "Unlock", "unlockSlow":
				if w.Kind == Unknown {
					w.Kind = Lock
				}
			}
		case w.Kind != Unknown && isUnlockWrapper(f):
		default:
			w.Site = i
			return w
		}
	}
	return w
}

// machinery walks from the leaf over the frames that only wait on behalf of
// others (runtime, sync, descriptor polling, lock wrappers) and returns the
// index of the first that is none. It sets what they tell of the wait.
func machinery(frames []*Frame, w *Wait) int {
	for i, f := range frames {
		switch {
		case isRuntime(f):
			if rootFunc(f) {
				return len(frames)
			}
			w.byRuntime(f.Name)
		case isSync(f):
			w.bySync(f, i)
		case f.Package == "internal/poll" || f.Package == "net" && oldPoll[f.Name]:
			w.byPoll(f)
		case f.Package == "time" && f.Name == "Sleep":
			if w.Kind == Unknown {
				w.Kind = Sleep
			}
		case f.Package == "syscall" || strings.HasPrefix(f.Package, "internal/syscall/") || f.Package == "golang.org/x/sys/unix" || f.Package == "golang.org/x/sys/windows":
			if w.Kind == Unknown {
				w.Kind = Syscall
			}
		case w.Kind.IsLock() && isLockWrapper(f) && !(i+1 < len(frames) && generated(frames[i+1])):
			if w.LockFrame < 0 {
				w.LockFrame = i
			}
		case w.Kind != Unknown && f.Package == "os" && f.Type == "File", f.Package == "net" && f.Type == "netFD":
			// The lock or wait is of the descriptor; who writes to it is further up.
		case (w.Kind == FDLock || w.Kind == Syscall) && (f.Package == "fmt" || f.Package == "io"):
		case strings.HasPrefix(f.Name, "_Cfunc_"):
			if w.Kind == Unknown {
				w.Kind = Syscall // in C
			}
		case cgoGlue(f):
		default:
			return i
		}
	}
	return len(frames)
}

func (w *Wait) byRuntime(name string) {
	if w.Kind != Unknown {
		return
	}
	switch name {
	case "selectgo":
		w.Kind = Select
	case "chanrecv", "chanrecv1", "chanrecv2":
		w.Kind = Chan
	case "chansend", "chansend1":
		w.Kind, w.Send = Chan, true
	case "block":
		w.Kind, w.Nil = Select, true
	case "asyncPreempt", "asyncPreempt2", "goschedguarded", "Gosched", "goschedImpl", "gopreempt_m", "goyield":
		w.Kind = Running
	case "cgocall":
		w.Kind = Syscall
	case "netpollblock":
		w.Kind = Socket
	case "bgsweep", "bgscavenge", "forcegchelper", "runfinq", "runFinalizers", "gcBgMarkWorker", "runCleanups", "sysmon", "timerproc", "mstart1", "mstart", "mstart0",
		"schedule", "findRunnable", "park_m", "updateMaxProcsGoroutine", "runPerThreadSyscall":
		w.Kind = Idle
	case "goroutineProfileWithLabelsSync", "goroutineProfileWithLabels", "pprof_goroutineProfileWithLabels", "goroutineProfileWithLabelsConcurrent":
		w.Kind = Running
	}
}

func (w *Wait) bySync(f *Frame, i int) {
	switch f.Name {
	case "runtime_SemacquireRWMutexR":
		w.Kind = RLock
		return
	case "runtime_SemacquireRWMutex", "runtime_SemacquireMutex", "runtime_SemacquireWaitGroup", "runtime_Semacquire":
		// Which it is, the method that called tells; old releases have one name for all.
		return
	case "runtime_notifyListWait":
		w.Kind = Cond
		return
	}
	switch f.Type {
	case "Mutex", "RWMutex":
		switch f.Name {
		case "lockSlow", "Lock":
			if w.Kind == Unknown {
				w.Kind = Lock
			}
			if w.LockFrame < 0 {
				w.LockFrame = i
			}
		case "RLock":
			if w.Kind == Unknown {
				w.Kind = RLock
			}
			if w.LockFrame < 0 {
				w.LockFrame = i
			}
		case "unlockSlow", "rUnlockSlow":
			// Seen only where others wait: the goroutine hands the lock over and
			// gives way. In a convoy a large part of the crowd stands here, runnable.
			if w.Kind == Unknown || w.Kind == Running {
				w.Kind, w.Release = Lock, true
			}
		case "Unlock", "RUnlock":
			if w.Kind == Unknown {
				w.Kind = Running
			}
		}
	case "rlocker":
		if w.Kind == Unknown {
			w.Kind = RLock
		}
	case "WaitGroup", "Cond":
		if w.Kind == Unknown && f.Name == "Wait" {
			w.Kind, w.Group = Cond, f.Type == "WaitGroup"
		}
	}
}

func (w *Wait) byPoll(f *Frame) {
	switch {
	case f.Type == "fdMutex":
		w.Kind = FDLock
	case f.Name == "Accept" || f.Name == "accept" || f.Name == "acceptOne":
		w.Kind = Idle
	case strings.HasPrefix(f.Name, "runtime_pollWait"), f.Type == "pollDesc", f.Type == "ioSrv":
		if w.Kind == Unknown {
			w.Kind = Socket
		}
	}
}

// oldPoll names the functions of package net that did internal/poll's work up to Go 1.8.
var oldPoll = map[string]bool{
	"runtime_pollWait": true, "runtime_Semacquire": true,
	"Wait": true, "WaitRead": true, "WaitWrite": true, // (*pollDesc)
	"RWLock": true, "readLock": true, "writeLock": true, // (*fdMutex), (*netFD)
	"accept": true, // (*netFD)
}

// byReason reads a header's state where the frames did not tell.
func (w *Wait) byReason(reason string) {
	switch {
	case strings.HasPrefix(reason, "chan receive"), strings.HasPrefix(reason, "chan send"):
		w.Kind, w.Nil = Chan, neverEnds(reason)
		w.Send = strings.HasPrefix(reason, "chan send")
	case reason == reasonChan:
		w.Kind, w.Either = Chan, true
	case strings.HasPrefix(reason, "select"):
		w.Kind, w.Nil = Select, neverEnds(reason)
	case reason == "IO wait":
		w.Kind = Socket
	case reason == "sleep":
		w.Kind = Sleep
	case reason == "syscall", reason == "waiting for cgo callback":
		w.Kind = Syscall
	case reason == "sync.Mutex.Lock", reason == "sync.RWMutex.Lock":
		w.Kind = Lock
	case reason == "sync.RWMutex.RLock":
		w.Kind = RLock
	case reason == "sync.Cond.Wait", strings.HasPrefix(reason, "sync.WaitGroup.Wait"):
		w.Kind = Cond
	case reason == "GC assist marking":
		w.Kind = Running
	case idleReason[reason]:
		w.Kind = Idle
	}
}

func neverEnds(reason string) bool {
	return strings.HasSuffix(reason, "(nil chan)") || strings.HasSuffix(reason, "(no cases)")
}

// Reasons that a reader gives where no header does: what the addresses of a
// debug=1 profile tell.
const (
	reasonParked = "parked" // or running; the named frames do not tell
	reasonChan   = "chan"   // a channel operation of unknown direction
)

// idleReason holds the wait reasons of the runtime's own goroutines at rest
// (runtime2.go waitReasonStrings, Go 1.20 to 1.27).
var idleReason = map[string]bool{
	"GC worker (idle)": true, "GC worker (active)": true, "GC sweep wait": true, "GC scavenge wait": true,
	"force gc (idle)": true, "finalizer wait": true, "cleanup wait": true, "GOMAXPROCS updater (idle)": true,
	"timer goroutine (idle)": true, "trace reader (blocked)": true, "wait for GC cycle": true, "idle": true, "dead": true,
	"GC weak to strong wait": true, "coroutine": true,
}

// schedulerState maps the header states in which a goroutine does not wait.
func schedulerState(reason string) (Kind, bool) {
	switch reason {
	case "running":
		return Running, true
	case "runnable", "preempted", "copystack":
		return Runnable, true
	}
	return Unknown, false
}

// parkless reports whether a profile's stack shows no parking by the runtime,
// so that its goroutine was on a CPU or waiting for one. Only a protobuf profile
// shows runtime frames at all; a stack with none at its leaf is running there.
func parkless(frames []*Frame) bool {
	return len(frames) > 0 && !(isRuntime(frames[0]) && frames[0].Name == "gopark")
}

func isRuntime(f *Frame) bool {
	return f.Package == "runtime" || strings.HasPrefix(f.Package, "internal/runtime/") || strings.HasPrefix(f.Package, "runtime/internal/")
}

func isSync(f *Frame) bool { return f.Package == "sync" || f.Package == "internal/sync" }

func rootFunc(f *Frame) bool {
	return f.Package == "runtime" && (f.Name == "main" || f.Name == "goexit")
}

// isLockWrapper reports whether f, directly above a lock, is a method that only
// takes it for its caller: syncutil's and go-deadlock's mutexes, logrus'
// MutexWrap, a promoted Lock. Judged by the name of the method, since any type
// may wrap a lock; a function without a receiver is a caller.
func isLockWrapper(f *Frame) bool {
	if f.Type == "" && f.Package != "github.com/sasha-s/go-deadlock" {
		return false
	}
	switch f.Name {
	case "Lock", "RLock", "lock", "rlock", "rLock", "lockSlow", "doLock":
		return true // but not LockFunds: a method of the application's that locks is its caller
	}
	return false
}

// generated recognises the handlers that protocol compilers make: what they
// call is a service's method, whatever its name.
func generated(f *Frame) bool {
	return strings.HasPrefix(f.Name, "_") && strings.HasSuffix(f.Name, "_Handler")
}

func isUnlockWrapper(f *Frame) bool {
	if f.Type == "" {
		return false
	}
	switch f.Name {
	case "Unlock", "RUnlock", "unlock", "runlock", "rUnlock":
		return true
	}
	return false
}

// cgoGlue recognises the functions cgo generates between Go and C. What waits
// in a callback from C is the Go function that C called.
func cgoGlue(f *Frame) bool {
	return strings.HasPrefix(f.Name, "_cgoexp_") || strings.HasPrefix(f.Func, "_cgoexp_")
}
