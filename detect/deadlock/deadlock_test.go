package deadlock_test

import (
	"testing"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/detect/cases"
	"github.com/contend/contend/detect/deadlock"
)

func TestDeadlock(t *testing.T) {
	cases.Run(t, []*detect.Detector{deadlock.Detector}, []cases.Case{
		{
			Name: "two accounts locked in both orders, others behind them",
			Dump: `
				1 sync.Mutex.Lock: LOCK(0xc0002000) < sync.(*Mutex).Lock < main.(*account).receive(0xc0002000)@45 < main.(*account).pay(0xc0001000)@40 < HANDLER
				1 sync.Mutex.Lock: LOCK(0xc0001000) < sync.(*Mutex).Lock < main.(*account).receive(0xc0001000)@45 < main.(*account).pay(0xc0002000)@40 < HANDLER
				9 sync.Mutex.Lock: LOCK(0xc0001000) < sync.(*Mutex).Lock < main.(*account).pay(0xc0001000)@36 < HANDLER
				7 sync.Mutex.Lock: LOCK(0xc0002000) < sync.(*Mutex).Lock < main.(*account).pay(0xc0002000)@36 < HANDLER`,
			Verdict: "deadlock",
			Want:    []cases.Want{{Detector: "deadlock", Function: "main.(*account).pay", Blocked: 18, Confidence: detect.High, Severity: detect.Critical}},
		},
		{
			Name: "near-miss: a chain of two locks has an end",
			Dump: `
				9 sync.Mutex.Lock: LOCK(0xc0001000) < sync.(*Mutex).Lock < main.(*outer).get(0xc0001000)@20 < HANDLER
				1 sync.Mutex.Lock: LOCK(0xc0002000) < sync.(*Mutex).Lock < main.(*inner).get(0xc0002000)@50 < main.(*outer).get(0xc0001000)@24 < HANDLER
				1 select: net/http.(*persistConn).roundTrip < main.(*inner).get(0xc0002000)@54 < main.fill | main.main`,
		},
		{
			Name: "a lock that its own stack holds, for minutes",
			Dump: `
				1 sync.Mutex.Lock, 4 minutes: LOCK(0xc0001000) < sync.(*Mutex).Lock < main.(*store).size(0xc0001000)@80 < main.(*store).put(0xc0001000)@64 < HANDLER
				9 sync.Mutex.Lock: LOCK(0xc0001000) < sync.(*Mutex).Lock < main.(*store).put(0xc0001000)@60 < HANDLER`,
			Verdict: "deadlock",
			Want:    []cases.Want{{Detector: "deadlock", Function: "main.(*store).put", Blocked: 10, Confidence: detect.High}},
		},
		{
			Name: "a suspicion: it may have unlocked before it called back",
			Dump: `
				1 sync.Mutex.Lock: LOCK(0xc0001000) < sync.(*Mutex).Lock < main.(*bus).emit(0xc0001000)@60 < main.listener < main.(*bus).emit(0xc0001000)@68 < HANDLER
				9 sync.Mutex.Lock: LOCK(0xc0001000) < sync.(*Mutex).Lock < main.(*bus).emit(0xc0001000)@60 < HANDLER`,
			Want: []cases.Want{{Detector: "deadlock", Blocked: 10, Confidence: detect.Medium, Severity: detect.Info}},
		},
		{
			Name: "near-miss: a method of the object that locks nothing",
			Dump: `
				1 sync.Mutex.Lock, 4 minutes: LOCK(0xc0001000) < sync.(*Mutex).Lock < main.(*manager).tick(0xc0001000)@80 < main.(*manager).Run(0xc0001000)@64 | main.main
				30 sync.Mutex.Lock: LOCK(0xc0001000) < sync.(*Mutex).Lock < main.(*manager).Get(0xc0001000)@20 < HANDLER`,
		},
		{
			Name: "near-miss: two locks of one object, always in one order",
			Dump: `
				5 sync.Mutex.Lock: LOCK(0xc0001010) < sync.(*Mutex).Lock < main.(*server).Update(0xc0001000)@50 < HANDLER
				1 sync.Mutex.Lock: LOCK(0xc0001008) < sync.(*Mutex).Lock < main.(*server).refresh(0xc0001000)@30 < main.(*server).Update(0xc0001000)@55 < HANDLER
				30 sync.Mutex.Lock: LOCK(0xc0001008) < sync.(*Mutex).Lock < main.(*server).refresh(0xc0001000)@30 < HANDLER`,
		},
		{
			Name: "two locks of one object, in both orders",
			Dump: `
				1 sync.Mutex.Lock: LOCK(0xc0001010) < sync.(*Mutex).Lock < main.(*server).b(0xc0001000)@90 < main.(*server).a(0xc0001000)@55 < HANDLER
				1 sync.Mutex.Lock: LOCK(0xc0001008) < sync.(*Mutex).Lock < main.(*server).a(0xc0001000)@50 < main.(*server).b(0xc0001000)@95 < HANDLER
				9 sync.Mutex.Lock: LOCK(0xc0001008) < sync.(*Mutex).Lock < main.(*server).a(0xc0001000)@50 < HANDLER`,
			Verdict: "deadlock",
			Want:    []cases.Want{{Detector: "deadlock", Function: "main.(*server).a", Blocked: 11, Confidence: detect.High}},
		},
		{
			Name: "two locks taken in both orders, each pair within one function",
			Dump: `
				1 sync.Mutex.Lock: LOCK(0xc0001048) < sync.(*Mutex).Lock < main.(*s).Flush(0xc0001000)@44 < HANDLER
				1 sync.Mutex.Lock: LOCK(0xc0001000) < sync.(*Mutex).Lock < main.(*s).Update(0xc0001000)@84 < HANDLER
				5 sync.Mutex.Lock: LOCK(0xc0001000) < sync.(*Mutex).Lock < main.(*s).Flush(0xc0001000)@40 < HANDLER
				3 sync.Mutex.Lock: LOCK(0xc0001048) < sync.(*Mutex).Lock < main.(*s).Update(0xc0001000)@80 < HANDLER`,
			Verdict: "deadlock",
			Want:    []cases.Want{{Detector: "deadlock", Function: "main.(*s).Flush", Blocked: 10, Confidence: detect.High}},
		},
		{
			Name: "a read lock taken twice, a writer between",
			Dump: `
				1 sync.RWMutex.Lock: sync.runtime_SemacquireRWMutex(0x0?) < sync.(*RWMutex).Lock(0x0?) < main.(*catalog).Set(0xc0001000)@40 < HANDLER
				1 sync.RWMutex.RLock: sync.runtime_SemacquireRWMutexR(0x0?) < sync.(*RWMutex).RLock < main.(*catalog).Price(0xc0001000)@20 < main.(*catalog).Discount(0xc0001000)@33 < HANDLER
				9 sync.RWMutex.RLock: sync.runtime_SemacquireRWMutexR(0x0?) < sync.(*RWMutex).RLock < main.(*catalog).Discount(0xc0001000)@30 < HANDLER`,
			Verdict: "deadlock",
			Want:    []cases.Want{{Detector: "deadlock", Function: "main.(*catalog).Discount", Blocked: 11}},
		},
		{
			Name: "near-miss: the same methods of different objects",
			Dump: `
				1 sync.Mutex.Lock: LOCK(0xc0001000) < sync.(*Mutex).Lock < main.(*store).size(0xc0001000)@80 < main.(*store).put(0xc0009000)@64 < HANDLER
				9 sync.Mutex.Lock: LOCK(0xc0001000) < sync.(*Mutex).Lock < main.(*store).put(0xc0001000)@60 < HANDLER
				1 select: net/http.(*persistConn).roundTrip < main.(*store).put(0xc0001000)@64 < HANDLER`,
		},
		{
			Name: "a WaitGroup waited for under the lock its workers want",
			Dump: `
				1 semacquire: sync.runtime_Semacquire(0xc0001094) < sync.(*WaitGroup).Wait(0xc000108c) < main.(*client).Close(0xc0001000)@55 < main.main
				3 semacquire: LOCK(0xc00010a0) < sync.(*Mutex).Lock < main.(*client).watch(0xc0001000)@33 | main.newClient`,
			Verdict: "deadlock",
			Want:    []cases.Want{{Detector: "deadlock", Function: "main.(*client).Close", Blocked: 4, Confidence: detect.Medium}},
		},
		{
			Name: "near-miss: the WaitGroup is another object's",
			Dump: `
				1 semacquire: sync.runtime_Semacquire(0xc0009094) < sync.(*WaitGroup).Wait(0xc000908c) < main.(*client).Close(0xc0001000)@55 < main.main
				3 semacquire: LOCK(0xc00010a0) < sync.(*Mutex).Lock < main.(*client).watch(0xc0001000)@33 | main.newClient`,
		},
		{
			Name: "near-miss: a deferred unlock hands over",
			Dump: `
				9 sync.Mutex.Lock: LOCK(0xc0001000) < sync.(*Mutex).Lock < main.(*store).put(0xc0001000)@60 < HANDLER
				3 runnable: sync.runtime_Semrelease < internal/sync.(*Mutex).unlockSlow < sync.(*Mutex).Unlock < main.(*store).put.func1 < main.(*store).put@64 < HANDLER`,
		},
	})
}
