package stacks

// Kind is what a goroutine waits for. The names are those of the report's
// JSON contract.
type Kind string

const (
	Unknown  Kind = ""         // no frames, or none that tell
	Lock     Kind = "lock"     // sync.Mutex, or the write side of an RWMutex
	RLock    Kind = "rlock"    // the read side of an RWMutex
	FDLock   Kind = "fdlock"   // internal/poll's lock around one descriptor
	Chan     Kind = "chan"     // one channel operation
	Pool     Kind = "pool"     // a permit: connection pool, semaphore, worker limit
	Socket   Kind = "socket"   // an answer: socket read, HTTP response, RPC
	Select   Kind = "select"   // several channels
	Cond     Kind = "cond"     // sync.Cond or sync.WaitGroup
	Sleep    Kind = "sleep"    // time.Sleep
	Syscall  Kind = "syscall"  // system call or cgo
	Running  Kind = "running"  // on a CPU; in a format without states, also runnable
	Runnable Kind = "runnable" // waiting for a CPU
	Idle     Kind = "idle"     // parked until work arrives: accept loops, keep-alive reads, pollers, the runtime's own
)

// IsLock reports whether k is a wait for a lock of any sort.
func (k Kind) IsLock() bool { return k == Lock || k == RLock || k == FDLock }

// Wait is what a stack waits for, and where.
type Wait struct {
	Kind Kind
	// Op is the operation that Kind is made of: Select where Kind is Pool or
	// Socket by what the code around it is known for.
	Op Kind
	// Send is set where a channel wait is known to be a send.
	Send bool
	// Either is set where a channel wait may be a send or a receive (debug=1).
	Either bool
	// Nil is set where a channel wait can never end (nil channel, select{}).
	Nil bool
	// Release is set where the goroutine is not waiting for the lock but handing
	// it over to one that does, which takes a turn of the scheduler.
	Release bool
	// Answer is set where a Socket wait is for the answer to a call, rather than
	// a read that may only be waiting for something to come.
	Answer bool
	// ByName is set where a Pool wait is told only by what its function is called.
	ByName bool
	// Group is set where a Cond wait is for a sync.WaitGroup.
	Group bool
	// Site is the index in the frames of the function that asked: the first
	// above the runtime, sync and lock wrappers. It is -1 where there is none.
	Site int
	// LockFrame is the index of the innermost frame whose first argument is
	// the address of the lock waited for, -1 where no frame prints it.
	LockFrame int
}
