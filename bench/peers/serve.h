// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// The protocol between the benchmark and its peers in C and C++. A program is called as
//
//	PROGRAM WORKLOAD SIZE THREADS [FILE]
//
// and takes one sample for each line "sample PARAMETER EXPECTED MILLISECONDS" on its standard
// input: it runs the workload until its timed parts add up to the given time. The workload defines
// the meaning of the two numbers. The answer is one line: nanoseconds per task, then "ok", or
// "wrong" and the reason. The process and the library's threads stay between samples.
//
// A program defines timed, which uses its library, and calls serve with its workloads.

#ifndef WEFT_BENCH_SERVE_H
#define WEFT_BENCH_SERVE_H

#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct {
    const char *name;
    void (*reset)(void);   // before every run
    void (*create)(void);  // creates the tasks; timed until all are complete
    void (*check)(void);   // after every run
    long (*tasks)(void);   // how many tasks a run creates
} workload;

static long size;            // of the workload
static int threads;          // exactly as many take part
static long parameter;       // of the sample
static long expected;        // for its check
static const char *file;     // "" if there is none
static char wrong[200];      // empty while the answer is right

// Tasks may call WRONG at the same time. The text may then be a mixture, but it is not empty.
#define WRONG(...) (void)(wrong[0] ? 0 : snprintf(wrong, sizeof wrong, __VA_ARGS__))

// timed runs create with the number of threads and returns the seconds from its call until all
// tasks are complete.
static double timed(void (*create)(void));

static double seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

// lines returns memory for count cache lines, which begins at one.
static void *lines(size_t count)
{
    void *p = aligned_alloc(64, count * 64);
    if (!p) {
        fprintf(stderr, "out of memory\n");
        exit(1);
    }
    return p;
}

// quiet waits until the library's threads have stopped polling for work, which takes libomp's 200
// ms. The peer that is measured next then has the processors to itself.
static void quiet(void)
{
    const struct timespec nap = {0, 5000000};
    for (int i = 0; i < 100; i++) {
        double before = seconds(CLOCK_PROCESS_CPUTIME_ID);
        nanosleep(&nap, NULL);
        if (seconds(CLOCK_PROCESS_CPUTIME_ID) - before < 0.0005)
            return;
    }
}

static int serve(int argc, char **argv, const workload *workloads, size_t count)
{
    if (argc < 4 || argc > 5) {
        fprintf(stderr, "usage: %s WORKLOAD SIZE THREADS [FILE]\n", argv[0]);
        return 2;
    }
    const workload *w = NULL;
    for (size_t i = 0; i < count; i++)
        if (!strcmp(argv[1], workloads[i].name))
            w = &workloads[i];
    size = atol(argv[2]);
    threads = atoi(argv[3]);
    file = argc > 4 ? argv[4] : "";
    if (!w || size < 1 || threads < 1) {
        fprintf(stderr, "no such workload, or a size or thread count below one: %s %s %s\n", argv[1], argv[2], argv[3]);
        return 2;
    }

    // Memory is kept from one run to the next, as in Go, so only the first run pays for its pages.
    mallopt(M_MMAP_MAX, 0);
    mallopt(M_TRIM_THRESHOLD, 2000000000);

    char line[100];
    while (fgets(line, sizeof line, stdin)) {
        double least = 0, total = 0;
        if (sscanf(line, "sample %ld %ld %lf", &parameter, &expected, &least) != 3) {
            fprintf(stderr, "not understood: %s", line);
            return 2;
        }
        long runs = 0;
        wrong[0] = 0;
        do {
            w->reset();
            total += timed(w->create);
            runs++;
            w->check();
        } while (total * 1e3 < least && !wrong[0]);
        quiet();
        printf("%.6f %s %s\n", total * 1e9 / ((double)runs * w->tasks()), wrong[0] ? "wrong" : "ok", wrong);
        fflush(stdout);
    }
    return 0;
}

#endif
