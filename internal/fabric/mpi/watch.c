//go:build mpi

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "state.h"

#include <sched.h>
#include <signal.h>
#include <time.h>

#ifdef __linux__
#include <sys/prctl.h>
#endif

// The watch polls when nobody else does.

static uint64_t now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + t.tv_nsec;
}

// nap sleeps for a time, or until it is kicked. It returns whether it was.
static int nap(weft_engine *e, uint64_t ns) {
	struct timespec t;
#ifdef __APPLE__
	t.tv_sec = ns / 1000000000u;
	t.tv_nsec = ns % 1000000000u;
#else
	uint64_t until = now() + ns;
	t.tv_sec = until / 1000000000u;
	t.tv_nsec = until % 1000000000u;
#endif
	pthread_mutex_lock(&e->mu);
	int err = 0;
	while (!e->kicked && err == 0) {
#ifdef __APPLE__
		err = pthread_cond_timedwait_relative_np(&e->cond, &e->mu, &t);
#else
		err = pthread_cond_timedwait(&e->cond, &e->mu, &t);
#endif
	}
	int kicked = e->kicked;
	e->kicked = 0;
	pthread_mutex_unlock(&e->mu);
	return kicked;
}

void weft_kick(weft_engine *e) {
	pthread_mutex_lock(&e->mu);
	e->kicked = 1;
	pthread_cond_signal(&e->cond);
	pthread_mutex_unlock(&e->mu);
}

enum {
	SHORTEST = 20 * 1000, // ns
	DRIVEN = 250 * 1000,  // ns: a sleep while others poll
	LOOKED = 1000 * 1000, // ns: a sleep while a goroutine polls that kicks if it gives up
	DEEP = 200 * 1000     // ns: from here on, who begins something kicks
};

static void *watch(void *arg) {
	weft_engine *e = arg;
	weft_shared *s = e->shared;
	uintptr_t handle = e->handle;
#ifdef __linux__
	prctl(PR_SET_TIMERSLACK, 1000UL); // ns; a thread's own
#endif
	uint64_t last = now(); // when something happened
	uint32_t turns = LOAD(&s->turns);
	while (!LOAD(&s->stop)) {
		uint32_t was = 0;
		if (__atomic_compare_exchange_n(&s->seat, &was, 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
			int queued = LOAD(&s->bell);
			int left = e->desk.n > 0; // somebody has the turn to poll, and will come for it
			if (!queued && !left)
				weft_poll(e, 0);
			if (queued || e->desk.n > 0) {
				weftWatched(handle); // which gives up the seat
				last = now();
				if (left)
					nap(e, SHORTEST);
				continue;
			}
			STORE(&s->seat, 0);
			if (LOAD(&s->bell))
				continue;
		}
		uint64_t t = now();
		uint32_t seen = LOAD(&s->turns);
		uint64_t ns;
		if (LOAD(&s->polled)) {
			turns = seen;
			last = t;
			ns = LOOKED;
		} else if (seen != turns) {
			turns = seen;
			last = t;
			ns = DRIVEN;
		} else {
			ns = (t - last) / 8;
			if (ns < SHORTEST)
				ns = SHORTEST;
		}
		if (ns > e->longest)
			ns = e->longest;
		__atomic_store_n(&s->waits, s->waits + 1, __ATOMIC_RELAXED);
		if (ns == 0) {
			sched_yield();
			continue;
		}
		int deep = t != last && ns >= DEEP;
		if (deep) {
			STORE(&s->deep, 1);
			// Who has begun something before it saw deep is seen here.
			if (LOAD(&s->turns) != turns || LOAD(&s->bell)) {
				STORE(&s->deep, 0);
				continue;
			}
		}
		if (nap(e, ns))
			last = now();
		if (deep)
			STORE(&s->deep, 0);
	}
	weftFaded(handle); // e may be gone from here on
	return NULL;
}

int weft_watch(weft_engine *e, uintptr_t handle, uint64_t longest) {
	// The program's signals are for threads that Go has made. What is left here is a fault's, and
	// what Go sends to its threads.
	static const int open[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGPROF, SIGURG};
	sigset_t blocked, saved;
	pthread_attr_t attr;
	pthread_t id;
	e->handle = handle;
	e->longest = longest;
	sigfillset(&blocked);
	for (size_t i = 0; i < sizeof open / sizeof *open; i++)
		sigdelset(&blocked, open[i]);
	int err = pthread_attr_init(&attr);
	if (err)
		return err;
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_sigmask(SIG_SETMASK, &blocked, &saved);
	err = pthread_create(&id, &attr, watch, e);
	pthread_sigmask(SIG_SETMASK, &saved, NULL);
	pthread_attr_destroy(&attr);
	return err;
}
